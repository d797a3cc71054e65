.PHONY: test-vllm
test-vllm: ## Generation with a real vLLM on this machine's CPU, in an environment of its own (about ten minutes)
	bash make/test_vllm.sh

.PHONY: test-vllm
test-vllm: ## Generation with a real vLLM on this machine's CPU, in an environment of its own (six minutes from nothing)
	bash make/test_vllm.sh

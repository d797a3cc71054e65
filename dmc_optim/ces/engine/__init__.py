"""The embedded engine: isolated processes on pinned cores, measured by the kernel (design of CES 2.2, 2.3).

tiers        how strongly a host can isolate, and why not more
interpreter  which Python the programs run under, and what they can import
namespaces, rootfs, seccomp, cgroups
             one Linux mechanism each
zygote       the program inside the sandbox: compiles a solution once, forks one fresh process per test
sandbox      one running zygote, as its supervisor sees it
clocks, verdict
             durations, re-runs and statuses as pure rules
supervisor   one process per slot: inputs in, outputs compared, results out
slots, jobs, embedded
             the caller's side: starts supervisors, spreads requests over them
"""

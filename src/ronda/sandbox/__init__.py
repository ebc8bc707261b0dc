"""Code that is not trusted, run where it can do no harm: a policy and a workspace → processes that end when they should.

Knows nothing of runs, tools or HTTP. Isolation is bubblewrap's namespaces or, where those cannot be had, Landlock; in both a
seccomp filter of ours, resource limits, and a cgroup or a watchdog. Where neither can be enforced nothing is started.
"""

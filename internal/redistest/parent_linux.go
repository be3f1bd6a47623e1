package redistest

import "syscall"

// dieWithParent makes the kernel kill the server if the test process dies without cleaning up.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

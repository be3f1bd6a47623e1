//go:build !linux

package redistest

import "syscall"

// dieWithParent can do nothing here.
func dieWithParent() *syscall.SysProcAttr { return nil }

//go:build unix && !linux

package localpg

import (
	"path/filepath"
	"syscall"
)

// attributes put the server in a process group of its own, so that Ctrl-C reaches the gateway alone, which then
// stops it last. The system can't be asked to end it with its parent: endOrphan does, at the next start.
func (o owner) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: o.credential}
}

// endOrphan tells the server of a dead process to end. The lock is still held, so that it must be the one alive.
func endOrphan(dir string) {
	if pid := pidIn(filepath.Join(dir, "data", "postmaster.pid")); pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGINT) // it may be gone by now
	}
}

package localpg

import "syscall"

// attributes put the server in a process group of its own, so that Ctrl-C reaches the gateway alone, which then
// stops it last, and have the system end it when its parent dies.
func (o owner) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: o.credential, Pdeathsig: syscall.SIGINT}
}

// endOrphan does nothing: the system has told the server to end.
func endOrphan(string) {}

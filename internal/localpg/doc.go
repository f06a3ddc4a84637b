// Package localpg runs a private PostgreSQL server beside the process: what `gateway dev` and the tests use, so
// that neither needs an installed cluster, a port or a password.
//
// It owns one directory:
//
//	lock   held (flock) by the process that started the server, and by the server itself, for as long as either lives
//	data   the cluster; made as data.init and renamed once it is whole
//	s      the Unix socket, in a directory that only the server's user may enter
//	log    what the server said since it was last started
//
// The server is a child of the process. It ends with it, even when the process is killed with SIGKILL (on Linux;
// elsewhere the next Start ends it), and the next Start on the same directory finds the same data. As root the
// server runs as the user postgres, else nobody, since PostgreSQL refuses root.
//
// It refuses to listen on TCP, to share a directory with a second process, to run as a service, and to touch any
// cluster that it has not made itself. It is no way to run a gateway in production.
package localpg

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// owner is the user that the server runs as; credential is nil when that is the process's own.
type owner struct {
	name       string
	uid, gid   int
	credential *syscall.Credential
}

// serverOwner is the process's own user, or for root the user postgres, else nobody.
func serverOwner() (owner, error) {
	if uid := os.Geteuid(); uid != 0 {
		return owner{name: "uid " + strconv.Itoa(uid), uid: uid, gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(account.Uid)
		gid, err2 := strconv.Atoi(account.Gid)
		if err1 != nil || err2 != nil || uid == 0 {
			continue
		}
		return owner{name, uid, gid, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return owner{}, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as: start the gateway as another user")
}

// prepareDir makes the directory with its socket's place and gives them to the server's user.
func prepareDir(dir string, o owner) (string, error) {
	var err error
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return "", err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("the private PostgreSQL's directory: %w", err)
	}
	if socket := filepath.Join(dir, "s", ".s.PGSQL."+port); len(socket) > socketPathMax {
		return "", fmt.Errorf("the directory %s is too deep for a private PostgreSQL: the path of its socket would be %d bytes long, and the system allows %d. Choose a shorter one",
			dir, len(socket), socketPathMax)
	}
	if err := checkOurs(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { // the server's user must be able to pass
		return "", fmt.Errorf("make the private PostgreSQL's directory: %w", err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "s")} {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("make the private PostgreSQL's directory: %w", err)
		}
		if err := own(path, o); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// checkOurs refuses a directory that holds other things and was never a private PostgreSQL's: giving it to the server's
// user would shut its owner out. One that is not there, is empty, or holds no more than what a start that was killed
// leaves may be taken.
func checkOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the private PostgreSQL's directory: %w", err)
	}
	lock, socket, others := false, false, false
	for _, e := range entries {
		switch {
		case e.Name() == "lock" && e.Type().IsRegular():
			lock = true
		case e.Name() == "s" && e.IsDir():
			socket = true
		case e.Name() == "data.init" && e.IsDir(): // half made
		default:
			others = true
		}
	}
	if others && !(lock && socket) {
		return fmt.Errorf("%s holds other things and is %w: choose an empty directory, or one that does not exist yet", dir, ErrNotOurs)
	}
	return nil
}

// own makes sure that a directory is the server's user's and nobody else's. It follows no link: for root, what lies
// in a directory of another user may be that user's trap.
func own(path string, o owner) error {
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open the private PostgreSQL's directory: %w", err)
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return fmt.Errorf("look at the private PostgreSQL's directory: %w", err)
	}
	uid := o.uid
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		uid = int(stat.Uid)
	}
	if uid != o.uid && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d), and the private PostgreSQL runs as %s: choose another directory", path, uid, o.name)
	}
	if uid != o.uid {
		if err := dir.Chown(o.uid, o.gid); err != nil {
			return fmt.Errorf("give the private PostgreSQL's directory to its user: %w", err)
		}
	}
	if info.Mode().Perm() != 0o700 {
		if err := dir.Chmod(0o700); err != nil {
			return fmt.Errorf("close the private PostgreSQL's directory to others: %w", err)
		}
	}
	return nil
}

// takeLock takes the directory for this process. The server inherits the lock: when it is taken and its holder is
// dead, the holder's server is ending, and the wait is short.
func takeLock(ctx context.Context, dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the private PostgreSQL's lock: %w", err)
	}
	deadline := time.Now().Add(orphanTimeout)
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close())
		}
		holder := pidIn(path)
		if alive(holder) {
			return nil, errors.Join(fmt.Errorf("the private PostgreSQL in %s is %w by process %d: stop that one first", dir, ErrInUse, holder), lock.Close())
		}
		endOrphan(dir)
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("the private PostgreSQL in %s is %w: its server (process %d) has outlived the one that started it", dir, ErrInUse,
				pidIn(filepath.Join(dir, "data", "postmaster.pid"))), lock.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the private PostgreSQL in %s: %w", dir, ctx.Err()), lock.Close())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := errors.Join(lock.Truncate(0), writeAt(lock, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), lock.Close())
	}
	return lock, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// pidIn is the process id on a file's first line, 0 if there is none.
func pidIn(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	return pid
}

func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// initialise makes the cluster, unless there is one. The rename is the moment from which it counts.
func (s *Server) initialise(ctx context.Context) error {
	data, half := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "data.init")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("remove a half-made data directory: %w", err)
	}
	began := time.Now()
	// -N: initdb need not wait for the disk. A power cut in the first seconds costs an empty cluster.
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs.bin, "initdb"),
		"-D", half, "-A", "trust", "-U", superuser, "-E", "UTF8", "--locale=C", "-N")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir, environment(), s.owner.attributes()
	if out, err := onLockedThread(cmd.CombinedOutput); err != nil {
		if errors.Is(err, syscall.EACCES) {
			return fmt.Errorf("the user %s, as which PostgreSQL runs, may not enter %s or run %s: choose another directory", s.owner.name, s.dir, cmd.Path)
		}
		return fmt.Errorf("make a PostgreSQL cluster in %s: %w: %s", s.dir, err, lastLines(string(out), 5))
	}
	if err := os.Rename(half, data); err != nil {
		return fmt.Errorf("make a PostgreSQL cluster in %s: %w", s.dir, err)
	}
	s.log.Info("made a PostgreSQL cluster", "dir", s.dir, "version", s.programs.major, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// lastLines is the last n lines of a program's output, joined into one.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

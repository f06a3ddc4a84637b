package localpg_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstallScript holds the script to this package's view of what is installed, short of installing anything.
func TestInstallScript(t *testing.T) {
	t.Parallel()
	// programsOf is a directory of programs that say they are of a version.
	programsOf := func(t *testing.T, version string) string {
		t.Helper()
		dir := t.TempDir()
		text := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version)
		for _, name := range []string{"initdb", "postgres"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, c := range []struct {
		name, bin string
		code      int
	}{
		{"finds what the private server runs on", "", 0},
		{"takes the oldest version that is supported", programsOf(t, "15.0"), 0},
		{"takes one that is not out yet", programsOf(t, "19devel"), 0},
		{"refuses an older one", programsOf(t, "14.13 (Debian 14.13-1)"), 2},
		{"refuses a directory without programs", t.TempDir(), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("../../deploy/install-postgres.sh")
			cmd.Env = os.Environ()
			if c.bin != "" {
				cmd.Env = append(cmd.Env, "GATEWAY_PG_BIN="+c.bin)
			}
			out, err := cmd.CombinedOutput()
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d: %s", got, c.code, out)
			}
			if want := min(c.code, 1); strings.Count(string(out), "\n") != want {
				t.Errorf("said %q, want %d lines", out, want)
			}
		})
	}
}

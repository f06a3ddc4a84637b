package webhook_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Who only receives must not have to trust, update or explain anybody else's code.
func TestThePackageNeedsTheStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files found (%v)", err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			self := strings.HasSuffix(name, "_test.go") && strings.HasSuffix(path, "/sdk/go/webhook")
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && !self {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

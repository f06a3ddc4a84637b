package archtest

import (
	"go/ast"
	"strings"
)

// The tail of a code base is where it rots: what grows past these asks to be split by meaning.
const (
	longestFile = 600
	longestFunc = 100
)

func size(t *tree) []Violation {
	var found []Violation
	for _, f := range t.files {
		if !f.generated && f.lines > longestFile {
			found = append(found, t.at(f, f.syntax.Package, "size", "the file has %d lines, more than %d", f.lines, longestFile))
		}
	}
	t.funcs(func(f *file, fn *ast.FuncDecl) {
		lines := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
		// A test is a list of subtests, each short; its length says nothing.
		if lines > longestFunc && !f.test {
			found = append(found, t.at(f, fn.Pos(), "size", "%s has %d lines, more than %d", funcName(fn), lines, longestFunc))
		}
	})
	return found
}

// packageDoc wants a comment on every package, in doc.go once the package has more than one file.
func packageDoc(t *tree) []Violation {
	var found []Violation
	for _, files := range t.packages() {
		documented, source := "", 0
		for _, f := range files {
			if !f.test {
				source++
			}
			if f.syntax.Doc != nil && strings.TrimSpace(f.syntax.Doc.Text()) != "" && !f.generated {
				documented = f.path
			}
		}
		switch {
		case documented == "":
			found = append(found, t.at(files[0], files[0].syntax.Package, "package-doc", "the package says nowhere what it owns"))
		case source > 1 && !strings.HasSuffix(documented, "/doc.go"):
			found = append(found, t.at(files[0], files[0].syntax.Package, "package-doc", "the package's comment stands in %s, not in doc.go", documented))
		}
	}
	return found
}

// generated holds the name of a file and its first line to each other.
func generated(t *tree) []Violation {
	var found []Violation
	for _, f := range t.files {
		if says := ast.IsGenerated(f.syntax); says != f.generated {
			found = append(found, t.at(f, f.syntax.Package, "generated", "a file is called .gen.go if and only if it says that it is generated"))
		}
	}
	return found
}

func noInit(t *tree) []Violation {
	var found []Violation
	t.funcs(func(f *file, fn *ast.FuncDecl) {
		if fn.Recv == nil && fn.Name.Name == "init" {
			found = append(found, t.at(f, fn.Pos(), "no-init", "init runs before anyone asked for it"))
		}
	})
	return found
}

// externalTests wants tests to see what a caller sees. export_test.go may hand them what they need of the inside.
func externalTests(t *tree) []Violation {
	var found []Violation
	for _, f := range t.files {
		if f.test && !strings.HasSuffix(f.syntax.Name.Name, "_test") && !strings.HasSuffix(f.path, "/export_test.go") {
			found = append(found, t.at(f, f.syntax.Package, "external-tests", "the test is in package %s, not in %s_test", f.syntax.Name.Name, f.syntax.Name.Name))
		}
	}
	return found
}

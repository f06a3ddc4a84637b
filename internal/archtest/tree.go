package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// module is the path of the root module; the Go SDK is a module of its own below it.
const module = "github.com/sallyport-dev/sallyport"

// tree is every Go file of the repository, parsed, and the tables of the schema.
type tree struct {
	files  []*file
	fset   *token.FileSet
	tables []string // of a tenant: those with a column tenant_id
}

// file is one Go file.
type file struct {
	path      string // from the root of the repository, with slashes
	dir       string
	syntax    *ast.File
	lines     int
	test      bool              // ends in _test.go
	generated bool              // ends in .gen.go
	imports   map[string]string // local name: path
}

// Violation is one place where a rule is broken.
type Violation struct {
	Rule string
	File string
	Line int    // 0: the file or package as a whole
	Func string // the function it is in, as "name" or "Type.name"; may be empty
	Text string
}

// String is the violation as an editor can jump to it.
func (v Violation) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", v.File, v.Line, v.Rule, v.Text)
}

// skipped are folders that hold no code of ours.
var skipped = [...]string{"node_modules", "testdata", "vendor", "tmp", "bin"}

// read parses every Go file below the root of a repository.
func read(root fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || slices.Contains(skipped[:], d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		data, err := fs.ReadFile(root, name)
		switch {
		case err != nil:
			return err
		case path.Dir(name) == "migrations" && path.Ext(name) == ".sql":
			t.tables = append(t.tables, tenantTables(string(data))...)
			return nil
		case path.Ext(name) != ".go":
			return nil
		}
		return t.add(name, data)
	})
	if err != nil {
		return nil, fmt.Errorf("read the repository: %w", err)
	}
	return t, nil
}

func (t *tree) add(name string, data []byte) error {
	syntax, err := parser.ParseFile(t.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	f := &file{
		path: name, dir: path.Dir(name), syntax: syntax, lines: strings.Count(string(data), "\n"),
		test: strings.HasSuffix(name, "_test.go"), generated: strings.HasSuffix(name, ".gen.go"),
		imports: make(map[string]string),
	}
	for _, spec := range syntax.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("import in %s: %w", name, err)
		}
		local := path.Base(target)
		if len(local) > 1 && local[0] == 'v' && strings.Trim(local[1:], "0123456789") == "" {
			local = path.Base(path.Dir(target)) // a module's major version is no part of its package's name
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		f.imports[local] = target
	}
	t.files = append(t.files, f)
	return nil
}

// packages groups the files by folder.
func (t *tree) packages() map[string][]*file {
	all := make(map[string][]*file)
	for _, f := range t.files {
		all[f.dir] = append(all[f.dir], f)
	}
	return all
}

// at makes a violation at a place in a file.
func (t *tree) at(f *file, pos token.Pos, rule, text string, args ...any) Violation {
	v := Violation{Rule: rule, File: f.path, Text: fmt.Sprintf(text, args...)}
	if pos.IsValid() {
		v.Line = t.fset.Position(pos).Line
		v.Func = f.funcAt(pos)
	}
	return v
}

// funcAt names the declared function around a position.
func (f *file) funcAt(pos token.Pos) string {
	for _, decl := range f.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Pos() <= pos && pos <= fn.End() {
			return funcName(fn)
		}
	}
	return ""
}

func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	return typeName(fn.Recv.List[0].Type) + "." + fn.Name.Name
}

// typeName is the name of a type without pointers and type arguments.
func typeName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	case *ast.Ident:
		return x.Name
	default:
		return ""
	}
}

// selects says whether an expression is pkg.name of an imported package, by the package's path.
func (f *file) selects(e ast.Node, pkg string, names ...string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && f.imports[id.Name] == pkg && slices.Contains(names, sel.Sel.Name)
}

// funcs visits every declared function of hand-written files.
func (t *tree) funcs(visit func(f *file, fn *ast.FuncDecl)) {
	for _, f := range t.files {
		if f.generated {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				visit(f, fn)
			}
		}
	}
}

// nodes visits every node of hand-written files.
func (t *tree) nodes(visit func(f *file, n ast.Node)) {
	for _, f := range t.files {
		if f.generated {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if n != nil {
				visit(f, n)
			}
			return true
		})
	}
}

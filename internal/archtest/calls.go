package archtest

import (
	"go/ast"
	"slices"
	"strings"
)

// A test that sleeps is slow when it need not be, and fails when the machine is.
func noSleepInTests(t *tree) []Violation {
	var found []Violation
	t.nodes(func(f *file, n ast.Node) {
		testing := f.test || strings.HasSuffix(f.dir, "test")
		if testing && f.selects(n, "time", "Sleep") {
			found = append(found, t.at(f, n.Pos(), "no-sleep-in-tests", "wait for a signal, or poll a condition until a deadline"))
		}
	})
	return found
}

func noContextValues(t *tree) []Violation {
	var found []Violation
	t.nodes(func(f *file, n ast.Node) {
		if f.selects(n, "context", "WithValue") {
			found = append(found, t.at(f, n.Pos(), "no-context-values", "what a function needs is a parameter"))
		}
	})
	return found
}

// clientHomes may build HTTP clients; everyone else would get round the guard.
var clientHomes = [...]string{"internal/egress", "cmd/gateway", "sdk/go", "sdk/go/internal/client"}

func noDefaultClient(t *tree) []Violation {
	var found []Violation
	t.nodes(func(f *file, n ast.Node) {
		switch {
		case f.test:
		case f.selects(n, "net/http", "DefaultClient", "DefaultTransport", "DefaultServeMux", "Get", "Head", "Post", "PostForm"):
			found = append(found, t.at(f, n.Pos(), "no-default-client", "http.%s has no time limit, and everyone in the process shares it", n.(*ast.SelectorExpr).Sel.Name))
		case f.selects(n, "net/http", "Client", "Transport") && !outside(f.dir) && !slices.Contains(clientHomes[:], f.dir) && strings.HasPrefix(f.dir, "internal/"):
			found = append(found, t.at(f, n.Pos(), "no-default-client", "HTTP clients are made in internal/egress, behind its guard"))
		}
	})
	return found
}

// jitterHomes may use math/rand/v2: for jitter and for where to begin, never for what must not be guessed.
var jitterHomes = [...]string{"internal/delivery", "internal/outbox", "internal/postgres"}

func noWeakRandom(t *tree) []Violation {
	var found []Violation
	for _, f := range t.files {
		for _, spec := range f.syntax.Imports {
			target := strings.Trim(spec.Path.Value, `"`)
			if target == "math/rand" || (target == "math/rand/v2" && !f.test && !slices.Contains(jitterHomes[:], f.dir)) {
				found = append(found, t.at(f, spec.Pos(), "no-weak-random", "%s can be guessed: use crypto/rand here", target))
			}
		}
	}
	return found
}

// environmentHomes may read the environment.
var environmentHomes = [...]string{"cmd/gateway", "internal/localpg", "internal/postgres/postgrestest"}

func environmentInCmd(t *tree) []Violation {
	var found []Violation
	t.nodes(func(f *file, n ast.Node) {
		if f.test || slices.Contains(environmentHomes[:], f.dir) || outside(f.dir) || !strings.HasPrefix(f.dir, "internal/") {
			return
		}
		if f.selects(n, "os", "Getenv", "LookupEnv", "Environ", "ExpandEnv") {
			found = append(found, t.at(f, n.Pos(), "environment-in-cmd", "a package is given its Config; only cmd reads the environment"))
		}
	})
	return found
}

// noErrorText finds strings.Contains(err.Error(), …) and err.Error() == ….
func noErrorText(t *tree) []Violation {
	var found []Violation
	t.nodes(func(f *file, n ast.Node) {
		if f.test {
			return
		}
		var args []ast.Expr
		switch x := n.(type) {
		case *ast.CallExpr:
			if f.selects(x.Fun, "strings", "Contains", "ContainsAny", "EqualFold", "HasPrefix", "HasSuffix", "Index") {
				args = x.Args
			}
		case *ast.BinaryExpr:
			if op := x.Op.String(); op == "==" || op == "!=" {
				args = []ast.Expr{x.X, x.Y}
			}
		}
		if slices.ContainsFunc(args, isErrorText) {
			found = append(found, t.at(f, n.Pos(), "no-error-text", "an error is known by its value or type, never by its text"))
		}
	})
	return found
}

// isErrorText says whether an expression is x.Error() without arguments.
func isErrorText(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 0 {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Error"
}

// txMethods holds a name that ends in Tx and a parameter pgx.Tx to each other.
func txMethods(t *tree) []Violation {
	var found []Violation
	t.funcs(func(f *file, fn *ast.FuncDecl) {
		if f.test {
			return
		}
		takes := slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool {
			return f.selects(p.Type, "github.com/jackc/pgx/v5", "Tx")
		})
		named := strings.HasSuffix(fn.Name.Name, "Tx")
		switch {
		case named && !takes:
			found = append(found, t.at(f, fn.Pos(), "tx-methods", "%s ends in Tx and takes no pgx.Tx", funcName(fn)))
		case takes && !named:
			found = append(found, t.at(f, fn.Pos(), "tx-methods", "%s takes a pgx.Tx and does not end in Tx", funcName(fn)))
		}
	})
	return found
}

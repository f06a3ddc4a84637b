package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

var (
	createTable  = regexp.MustCompile(`(?is)create table (?:if not exists )?gateway\.(\w+) \((.*?)\n\)`)
	tenantColumn = regexp.MustCompile(`(?im)^\s*tenant_id\s`)
	statement    = regexp.MustCompile(`(?i)\b(select|insert|update|delete|merge)\b`)
	tableName    = regexp.MustCompile(`\bgateway\.(\w+)`)
)

// tenantTables finds the tables of a migration that hold a tenant's rows: those with a column tenant_id.
func tenantTables(sql string) []string {
	var tables []string
	for _, m := range createTable.FindAllStringSubmatch(sql, -1) {
		if tenantColumn.MatchString(m[2]) {
			tables = append(tables, m[1])
		}
	}
	return tables
}

// sqlNamesTenant wants every statement on a tenant's table to name tenant_id. It sees string literals, so it can
// be fooled; it is there for the one who forgets.
func sqlNamesTenant(t *tree) []Violation {
	var found []Violation
	t.nodes(func(f *file, n ast.Node) {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || f.test || strings.HasSuffix(f.dir, "test") {
			return
		}
		if !statement.MatchString(lit.Value) || strings.Contains(lit.Value, "tenant_id") {
			return
		}
		for _, m := range tableName.FindAllStringSubmatch(lit.Value, -1) {
			if slices.Contains(t.tables, m[1]) {
				found = append(found, t.at(f, lit.Pos(), "sql-names-tenant", "a statement on gateway.%s does not name tenant_id", m[1]))
				return
			}
		}
	})
	return found
}

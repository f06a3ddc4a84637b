// Package postgrestest gives each test a real database of its own, cloned from one that is migrated.
//
//	func TestX(t *testing.T) {
//		pool := postgrestest.New(t)
//
// The first call in a test binary starts a private server (internal/localpg) in a slot, a directory that is kept
// between runs: the first free of …/sallyport/test/0, 1, … in the user's cache directory, in /var/cache for root, or
// under GATEWAY_TEST_PG_DIR. So the binaries of one `go test ./...` share nothing, there are as many slots as run
// at once, and a start takes a tenth of a second. A server ends with its test binary, however that ends; what it left is
// cleared by the next one in its slot, and a slot that can't be started is made anew. Nothing in one is synced to disk.
//
// GATEWAY_TEST_DATABASE_URL names an existing server to use in its place. Its user must be able to create databases,
// and its max_connections should be 200 or more.
package postgrestest

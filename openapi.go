// Package sallyport holds the contract of the HTTP API, so that the gateway serves and enforces the very document
// that its server and its clients are generated from.
package sallyport

import _ "embed"

//go:embed openapi.yaml
var openAPI string

// OpenAPI is the contract: an OpenAPI 3.0.3 document in YAML.
func OpenAPI() string { return openAPI }

// Package client builds the requests of the API. It is generated from openapi.yaml, and package sallyport is the only
// one to use it: what is generated changes its shape with the generator.
package client

//go:generate go tool oapi-codegen -config client.yaml ../../../../openapi.yaml

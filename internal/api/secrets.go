package api

import (
	"context"
	"time"

	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/signing"
)

// broughtSecret reads a secret that a request brings along; the zero value where it brings none.
func broughtSecret(text *string) (signing.Secret, error) {
	if text == nil {
		return signing.Secret{}, nil
	}
	secret, err := signing.ParseSecret(*text)
	if err != nil { // its text tells the form that is wanted, never the secret
		return signing.Secret{}, refuseFields(codeValidationFailed, []FieldError{fieldError("/secret", fieldFormat, "It must be whsec_ and 24 to 64 bytes in base64, with padding.")})
	}
	return secret, nil
}

// RotateSecret gives an endpoint a new secret.
func (c *call) RotateSecret(ctx context.Context, r RotateSecretRequestObject) (RotateSecretResponseObject, error) {
	ref, err := endpointRef(r.EndpointID)
	if err != nil {
		return nil, err
	}
	version, err := ifVersion(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	rotation := endpoint.Rotation{Grace: c.cfg.RotationGrace}
	if rotation.Secret, err = broughtSecret(r.Body.Secret); err != nil {
		return nil, err
	}
	if r.Body.GraceSeconds != nil {
		rotation.Grace = time.Duration(*r.Body.GraceSeconds) * time.Second
	}
	e, secret, err := c.cfg.Endpoints.RotateTx(ctx, c.tx, c.caller, ref, rotation, version)
	if err != nil {
		return nil, err
	}
	return RotateSecret200JSONResponse{Body: createdModel(endpointModel(e), secret.Text()), Headers: RotateSecret200ResponseHeaders{ETag: etag(e.Version)}}, nil
}

// EndPreviousSecrets ends the grace of previous secrets.
func (c *call) EndPreviousSecrets(ctx context.Context, r EndPreviousSecretsRequestObject) (EndPreviousSecretsResponseObject, error) {
	ref, err := endpointRef(r.EndpointID)
	if err != nil {
		return nil, err
	}
	version, err := ifVersion(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	e, err := c.cfg.Endpoints.EndPrevious(ctx, c.caller, ref, version)
	if err != nil {
		return nil, err
	}
	return EndPreviousSecrets200JSONResponse{Body: endpointModel(e), Headers: EndPreviousSecrets200ResponseHeaders{ETag: etag(e.Version)}}, nil
}

package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/spf13/cobra"
)

func (c *cli) keysCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: "Make the keys that seal secrets at rest"}
	var id string
	generate := &cobra.Command{
		Use:   "generate",
		Short: "Print a new key, as SECRET_KEYS takes it",
		Long: "Prints a new key, as SECRET_KEYS takes it. To change keys, put the new one first and keep the old ones after a\n" +
			"comma: the first one seals, and each of them opens what it has sealed.",
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			text, err := newSecretKey(id)
			if err != nil {
				return err
			}
			err = c.out.data(map[string]string{"secret_keys": text}, func(w io.Writer) { fmt.Fprintln(w, text) })
			c.out.hint("Keep it as GATEWAY_SECRET_KEYS or in the file that GATEWAY_SECRET_KEYS_FILE names. What it seals can be opened with nothing else.")
			return err
		},
	}
	generate.Flags().StringVar(&id, "id", "", "the key's name in the ring (default: k and the date)")
	cmd.AddCommand(generate)
	return group(cmd)
}

// keyID is what the name of a key may be.
var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// newSecretKey makes a key of 32 random bytes under a name, or under one of today.
func newSecretKey(id string) (string, error) {
	if id == "" {
		id = "k" + time.Now().UTC().Format("20060102")
	}
	if !keyID.MatchString(id) {
		return "", usagef("a key's name is 1 to 32 of A-Z a-z 0-9 _ -, not %q", id)
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return id + ":" + base64.StdEncoding.EncodeToString(key), nil
}

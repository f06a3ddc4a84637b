package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport-dev/sallyport/internal/signing"
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
			if id == "" {
				id = "k" + time.Now().UTC().Format("20060102")
			}
			text, err := signing.NewKey(id)
			if err != nil {
				return usagef("a key's name is 1 to 32 characters of A-Z a-z 0-9 _ and -: %v", err)
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

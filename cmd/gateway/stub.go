package main

import (
	"github.com/spf13/cobra"

	"github.com/sallyport-dev/sallyport/internal/settings"
)

func (c *cli) serveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "serve", RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := c.load(cmd, "DATABASE_URL", "SECRET_KEYS")
		return err
	}}
	settingFlags(cmd)
	return cmd
}
func (c *cli) devCommand() *cobra.Command    { return &cobra.Command{Use: "dev"} }
func (c *cli) tenantCommand() *cobra.Command { return &cobra.Command{Use: "tenant"} }
func (c *cli) tokenCommand() *cobra.Command  { return &cobra.Command{Use: "token"} }
func (c *cli) openapiCommand() *cobra.Command {
	return &cobra.Command{Use: "openapi"}
}
func judgeContents(*settings.Settings) error { return nil }

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sallyport-dev/sallyport/internal/settings"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Process is what a command may touch of the process around it.
type Process struct {
	Args   []string // without the program's name
	Env    []string // as os.Environ
	Stdin  io.Reader
	Stdout io.Writer // data
	Stderr io.Writer // words for people
}

// getenv reads the environment that the process was given.
func (p Process) getenv(name string) string {
	for _, pair := range p.Env {
		if key, text, _ := strings.Cut(pair, "="); key == name {
			return text
		}
	}
	return ""
}

// usageError is a command that was asked wrongly.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Run runs one command to its end and returns its exit code. It returns soon after ctx ends.
func Run(ctx context.Context, p Process) int {
	c := &cli{proc: p, out: &output{stdout: p.Stdout, stderr: p.Stderr, colour: wantsColour(p)}}
	root := c.root()
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	c.out.fail(err)
	var usage *usageError
	var wrong settings.Problems
	switch {
	case errors.As(err, &usage):
		c.out.hint("Run `%s --help` for how it is used.", cmd.CommandPath())
		return exitUsage
	case errors.As(err, &wrong):
		return exitUsage
	default:
		return exitFailed
	}
}

// cli is what all commands share.
type cli struct {
	proc       Process
	out        *output
	configFile string
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "gateway",
		Short:         "Sallyport, a webhook delivery gateway",
		Long:          "Sallyport takes events from your application and delivers them, signed, to the endpoints of your customers.\n`gateway dev` shows all of it on this machine.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetArgs(append([]string{}, c.proc.Args...)) // never nil: that would be the arguments of the process
	root.SetIn(c.proc.Stdin)
	root.SetOut(c.proc.Stdout) // before the completion command, which holds on to it
	root.SetErr(c.proc.Stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().BoolVar(&c.out.json, "json", false, "write data as JSON")
	root.PersistentFlags().BoolVarP(&c.out.quiet, "quiet", "q", false, "no words for people, save errors")
	root.PersistentFlags().StringVar(&c.configFile, "config", "", "the settings file (GATEWAY_CONFIG; gateway.yaml here, if there is one)")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		c.serveCommand(),
		c.devCommand(),
		c.migrateCommand(),
		c.tenantCommand(),
		c.tokenCommand(),
		c.keysCommand(),
		c.configCommand(),
		c.openapiCommand(),
		c.healthCommand(),
		c.versionCommand(),
	)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			group(cmd)
		}
	}
	return group(root)
}

// group makes a command into one that only has commands below it: without one of them it shows them.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help()
			return usagef("%s needs a command", cmd.CommandPath())
		}
		var known []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				known = append(known, sub.Name())
			}
		}
		if near := settings.Nearest(args[0], known); near != "" {
			return usagef("%s has no command %q. Did you mean %s?", cmd.CommandPath(), args[0], near)
		}
		return usagef("%s has no command %q, only %s", cmd.CommandPath(), args[0], strings.Join(known, ", "))
	}
	return cmd
}

// flagError makes a flag that nobody knows, or that holds nonsense, a usage error with advice.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := settings.Nearest(unknown.GetSpecifiedName(), known); near != "" {
			return usagef("%s has no flag --%s. Did you mean --%s?", cmd.CommandPath(), unknown.GetSpecifiedName(), near)
		}
		return usagef("%s has no flag --%s", cmd.CommandPath(), unknown.GetSpecifiedName())
	}
	return &usageError{err.Error()}
}

// exactly takes as many arguments as are named.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s needs %s", cmd.CommandPath(), names[len(args)])
		case len(args) > len(names):
			return usagef("%s has no use for %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// wantsColour says whether standard error is a terminal whose user has not said no to colour.
func wantsColour(p Process) bool {
	file, ok := p.Stderr.(*os.File)
	if !ok || p.getenv("NO_COLOR") != "" || p.getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

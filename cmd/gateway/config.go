package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sallyport-dev/sallyport/internal/settings"
)

// settingFlags gives a command the flags of the settings that are named, or of all of them.
func settingFlags(cmd *cobra.Command, names ...string) {
	for _, e := range settings.List() {
		if len(names) > 0 && !slices.Contains(names, e.Name) {
			continue
		}
		about := strings.TrimSuffix(e.About, ".")
		cmd.Flags().Var(&textFlag{text: e.Default, form: kind(e)}, e.Flag, plainQuotes(about))
		if e.Secret {
			cmd.Flags().Var(&textFlag{form: "path"}, e.Flag+"-file", "the file that holds "+e.Name)
		}
	}
	cmd.Flags().SortFlags = false
}

// textFlag is a flag whose text is judged with all other settings, not where flags are parsed.
type textFlag struct{ text, form string }

func (f *textFlag) Set(text string) error { f.text = text; return nil }
func (f *textFlag) String() string        { return f.text }
func (f *textFlag) Type() string          { return f.form }

// kind is one word for what a flag takes.
func kind(e settings.Entry) string {
	switch {
	case e.Form == "number", e.Form == "time", e.Form == "URL", e.Form == "host:port", e.Form == "ip:port":
		return e.Form
	case strings.HasPrefix(e.Form, "list"):
		return "list"
	default:
		return "value"
	}
}

// plainQuotes keeps pflag from taking a word in back quotes for the name of the value.
func plainQuotes(text string) string { return strings.ReplaceAll(text, "`", "'") }

// sources is where a command's settings come from.
func (c *cli) sources(cmd *cobra.Command) (settings.Sources, error) {
	named := c.configFile
	if named == "" {
		named = c.proc.getenv("GATEWAY_CONFIG")
	}
	file, err := readConfig(named)
	src := settings.Sources{Flags: make(map[string]string), Env: c.proc.Env, File: file, ReadFile: os.ReadFile}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, ok := f.Value.(*textFlag); ok {
			src.Flags[f.Name] = f.Value.String()
		}
	})
	return src, err
}

// load reads the settings and wants some of them to be set. Everything that is wrong is one error; the settings are
// there even so.
func (c *cli) load(cmd *cobra.Command, required ...string) (*settings.Settings, error) {
	src, unread := c.sources(cmd)
	return c.judge(src, unread, required...)
}

// judge loads from sources and puts all problems together: of the file, of the settings, of what is missing, and of
// what the packages that are given a setting say to it.
func (c *cli) judge(src settings.Sources, unread error, required ...string) (*settings.Settings, error) {
	s, err := settings.Load(src)
	var all settings.Problems
	for _, err := range []error{unread, err, s.Require(required...), judgeContents(s)} {
		var some settings.Problems
		switch {
		case errors.As(err, &some):
			all = append(all, some...)
		case err != nil:
			return s, err
		}
	}
	if len(all) > 0 {
		return s, all
	}
	return s, nil
}

func (c *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show the settings"}
	cmd.AddCommand(c.configPrintCommand(), c.configDocsCommand())
	return group(cmd)
}

func (c *cli) configPrintCommand() *cobra.Command {
	var origin, changed bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the settings in force, secrets hidden",
		Long: "Prints every setting with its value in force, as a settings file. Secrets are never shown.\n" +
			"What is wrong with the settings is told as well, and the exit code is then 2.",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, wrong := c.load(cmd)
			if err := c.printSettings(s, origin, changed); err != nil {
				return err
			}
			for _, w := range s.Warnings() {
				c.out.say("warning: %s", w)
			}
			return wrong
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each value came from")
	cmd.Flags().BoolVar(&changed, "changed", false, "only what is not by default")
	settingFlags(cmd)
	return cmd
}

// printedSetting is one setting in JSON.
type printedSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Secret bool   `json:"secret"`
	Source string `json:"source"`
	At     string `json:"at,omitempty"`
}

func (c *cli) printSettings(s *settings.Settings, origin, changed bool) error {
	var list []printedSetting
	var rows [][]string
	for _, e := range s.Entries() {
		if changed && e.Origin.Source == settings.FromDefault {
			continue
		}
		list = append(list, printedSetting{e.Name, e.Value, e.Secret, string(e.Origin.Source), e.Origin.At})
		row := []string{e.Key + ": " + yamlText(e.Value)}
		if e.Secret { // a comment, so that the output is a file that can be read again
			row[0] = fmt.Sprintf("# %s: %s", e.Key, e.Value)
			if e.Value == "" {
				row[0] = fmt.Sprintf("# %s is not set", e.Key)
			}
		}
		if origin {
			row = append(row, "# "+e.Origin.String())
		}
		rows = append(rows, row)
	}
	return c.out.data(list, func(w io.Writer) { columns(w, rows...) })
}

// plainYAML matches texts that mean themselves in YAML.
var plainYAML = regexp.MustCompile(`^[A-Za-z0-9/][A-Za-z0-9_./*+-]*([:,][A-Za-z0-9_./*+-]+)*$`)

func yamlText(text string) string {
	if plainYAML.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

func (c *cli) configDocsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "docs",
		Short: "Write the reference of all settings, in Markdown",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			return c.out.data(settings.List(), func(w io.Writer) { fmt.Fprint(w, settings.Docs()) })
		},
	}
}

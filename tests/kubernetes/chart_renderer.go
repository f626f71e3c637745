// Renders a chart as `helm template` does, as far as deploy/kubernetes/chart uses it; Debian has no Helm. What Helm leaves empty
// because a value is not there is an error here.
//
//	chart_renderer CHART NAMESPACE [VALUES]...
//
// writes, as JSON, "values": the chart's own with those of the files over them, and "files": each template's text by its name.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type tree = map[string]interface{}

// As Helm reads YAML: through JSON, whose numbers are all float64.
func parse(text string) (tree, error) {
	var given, through tree
	if err := yaml.Unmarshal([]byte(text), &given); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	return through, json.Unmarshal(encoded, &through)
}

func read(path string) (tree, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	given, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return given, nil
}

// `over` goes before `under`, key by key; null takes a key away.
func coalesce(under, over tree) tree {
	for key, value := range over {
		below, isBelow := under[key].(tree)
		above, isAbove := value.(tree)
		switch {
		case value == nil:
			delete(under, key)
		case isBelow && isAbove:
			under[key] = coalesce(below, above)
		default:
			under[key] = value
		}
	}
	return under
}

func toYaml(value interface{}) (string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	var plain interface{} // JSON is YAML, and integers are integers again
	if err = yaml.Unmarshal(encoded, &plain); err != nil {
		return "", err
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err = encoder.Encode(plain)
	return strings.TrimSuffix(text.String(), "\n"), err
}

func functions(all *template.Template) template.FuncMap {
	known := sprig.TxtFuncMap()
	delete(known, "env") // as Helm has it
	delete(known, "expandenv")
	known["toYaml"] = toYaml
	known["fromYaml"] = parse
	known["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	known["tpl"] = func(text string, data interface{}) (string, error) {
		copied, err := all.Clone()
		if err != nil {
			return "", err
		}
		one, err := copied.New("tpl").Parse(text)
		if err != nil {
			return "", err
		}
		var made strings.Builder
		err = one.Execute(&made, data)
		return made.String(), err
	}
	known["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	return known
}

func render(folder, namespace string, files []string) (tree, error) {
	chart, err := read(filepath.Join(folder, "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	values, err := read(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		over, err := read(file)
		if err != nil {
			return nil, err
		}
		values = coalesce(values, over)
	}
	all := template.New("chart").Option("missingkey=error")
	all.Funcs(functions(all))
	paths, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if _, err = all.New(filepath.Base(path)).Parse(string(text)); err != nil {
			return nil, err
		}
	}
	// Helm gives the chart's fields in capitals: .Chart.Name, .Chart.AppVersion.
	described := tree{}
	for key, value := range chart {
		described[strings.ToUpper(key[:1])+key[1:]] = value
	}
	data := tree{"Values": values, "Chart": described, "Release": tree{
		"Name": "medley", "Namespace": namespace, "Service": "Helm", "IsInstall": true, "IsUpgrade": false, "Revision": 1}}
	made := tree{}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var text strings.Builder
		if err := all.ExecuteTemplate(&text, name, data); err != nil {
			return nil, err
		}
		made[name] = text.String()
	}
	return tree{"values": values, "files": made}, nil
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "chart_renderer CHART NAMESPACE [VALUES]...")
		os.Exit(2)
	}
	made, err := render(os.Args[1], os.Args[2], os.Args[3:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(made)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

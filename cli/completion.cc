#include "cli/completion.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace medley {
namespace {

struct Word {
  std::string name;  // "--watch", "-w", "status"
  std::string what;  // for people
};

// A description on one line that stands in single quotes.
std::string Quotable(const std::string& text) {
  return absl::StrReplaceAll(text, {{"'", ""}, {"\n", " "}, {":", " -"}, {"[", "("}, {"]", ")"}});
}

std::vector<Word> OptionsOf(const CLI::App& app) {
  std::vector<Word> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      words.push_back({"--" + name, Quotable(option->get_description())});
    for (const std::string& name : option->get_snames())
      words.push_back({"-" + name, Quotable(option->get_description())});
  }
  return words;
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string NamesOf(const std::vector<Word>& words) {
  return absl::StrJoin(words, " ",
                       [](std::string* out, const Word& word) { absl::StrAppend(out, word.name); });
}

// "    status) words='--watch -w --coordinator' ;;" for a command, which takes the options of all, too. What can follow `certs` is also its
// commands.
std::string Case(const std::string& pattern, const CLI::App& command, const std::vector<Word>& common) {
  std::vector<Word> words;
  for (const CLI::App* below : CommandsOf(command)) words.push_back({below->get_name(), ""});
  for (const std::vector<Word>& more : {OptionsOf(command), common}) {
    for (const Word& word : more) {
      if (std::none_of(words.begin(), words.end(), [&](const Word& w) { return w.name == word.name; }))
        words.push_back(word);
    }
  }
  return absl::StrCat("    ", pattern, ") words='", NamesOf(words), "' ;;\n");
}

std::string Cases(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : CommandsOf(app))
    absl::StrAppend(&text, Case(command->get_name(), *command, OptionsOf(app)));
  return text;
}

// "    'certs issue') words=... ;;" for each command below another.
std::string NestedCases(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : CommandsOf(app)) {
    for (const CLI::App* below : CommandsOf(*command))
      absl::StrAppend(&text, Case(absl::StrCat("'", command->get_name(), " ", below->get_name(), "'"), *below,
                                  OptionsOf(app)));
  }
  return text;
}

std::string CommandNames(const CLI::App& app) {
  return absl::StrJoin(CommandsOf(app), " ", [](std::string* out, const CLI::App* command) {
    absl::StrAppend(out, command->get_name());
  });
}

std::string Bash(const CLI::App& app) {
  return absl::StrCat("# medley completion bash > /etc/bash_completion.d/medley\n", "_medley() {\n",
                      "  local words='", CommandNames(app), " ", NamesOf(OptionsOf(app)), "'\n",
                      "  [ \"$COMP_CWORD\" -gt 1 ] && case ${COMP_WORDS[1]} in\n", Cases(app), "  esac\n",
                      "  [ \"$COMP_CWORD\" -gt 2 ] && case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n",
                      NestedCases(app), "  esac\n",
                      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n", "}\n",
                      "complete -o default -F _medley medley\n");
}

std::string Zsh(const CLI::App& app) {
  std::string commands;
  for (const CLI::App* command : CommandsOf(app)) {
    absl::StrAppend(&commands, "    '", command->get_name(), ":", Quotable(command->get_description()),
                    "'\n");
  }
  return absl::StrCat(
      "#compdef medley\n# medley completion zsh > a file _medley in a folder of $fpath\n", "_medley() {\n",
      "  local -a commands=(\n", commands, "  )\n", "  if ((CURRENT == 2)); then\n",
      "    _describe command commands\n    return\n  fi\n", "  local words_of='' words=''\n",
      "  case ${(Q)${(z)BUFFER}[2]} in\n", Cases(app), "  esac\n",
      "  ((CURRENT > 3)) && case ${(Q)${(z)BUFFER}[2]}' '${(Q)${(z)BUFFER}[3]} in\n", NestedCases(app),
      "  esac\n", "  compadd -- ${=words}\n  _files\n}\n",
      // As a file of $fpath this is the function's body the first time that it is called.
      "if [[ ${funcstack[1]} == _medley ]]; then _medley \"$@\"; else compdef _medley medley; fi\n");
}

std::string Fish(const CLI::App& app) {
  std::string text = "# medley completion fish > ~/.config/fish/completions/medley.fish\n";
  const auto add = [&](const std::string& when, const std::vector<Word>& words) {
    for (const Word& word : words) {
      const bool is_long = word.name.compare(0, 2, "--") == 0;
      absl::StrAppend(&text, "complete -c medley", when, is_long ? " -l " : " -s ",
                      word.name.substr(is_long ? 2 : 1), " -d '", word.what, "'\n");
    }
  };
  add("", OptionsOf(app));
  const auto add_command = [&](const std::string& when, const CLI::App& command) {
    absl::StrAppend(&text, "complete -c medley -n ", when, " -a ", command.get_name(), " -d '",
                    Quotable(command.get_description()), "'\n");
  };
  for (const CLI::App* command : CommandsOf(app)) {
    add_command("__fish_use_subcommand", *command);
    const std::string seen = absl::StrCat("__fish_seen_subcommand_from ", command->get_name());
    add(absl::StrCat(" -n '", seen, "'"), OptionsOf(*command));
    for (const CLI::App* below : CommandsOf(*command)) {
      add_command(
          absl::StrCat("'", seen, "; and not __fish_seen_subcommand_from ", CommandNames(*command), "'"),
          *below);
      add(absl::StrCat(" -n '", seen, "; and __fish_seen_subcommand_from ", below->get_name(), "'"),
          OptionsOf(*below));
    }
  }
  return text;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return Bash(app);
  if (shell == "zsh") return Zsh(app);
  if (shell == "fish") return Fish(app);
  return "";
}

}  // namespace medley

import type { Command } from 'commander';
import { CommandError } from './output.js';

/**
 * Returns a script that completes the commands and options of the command line.
 *
 * @throws {CommandError} For a shell other than bash and zsh.
 */
export function completionFor(shell: string, program: Command): string {
  const cases = [...wordsOf(program, '')]
    .map(([path, words]) => `    '${path}') words='${words.join(' ')}' ;;`)
    .join('\n');
  const choose = `  case "$said" in\n${cases}\n    *) words='' ;;\n  esac`;
  if (shell === 'bash') return bash(choose);
  if (shell === 'zsh') return `#compdef toolloop\n${ZSH}\n${bash(choose)}`;
  throw new CommandError(
    `There is no completion for ${shell}. There is one for bash and one for zsh.`,
  );
}

/**
 * Readies a zsh, also one in which nothing completes yet, for a completion in the words of bash.
 */
const ZSH = `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
autoload -Uz bashcompinit && bashcompinit`;

/** The words that may follow each command, by the words that lead to it. */
function* wordsOf(command: Command, path: string): Generator<readonly [string, readonly string[]]> {
  const options = command.options.flatMap(({ long }) => long ?? []);
  yield [path, [...command.commands.map((one) => one.name()), ...options, '--help']];
  for (const one of command.commands)
    yield* wordsOf(one, path === '' ? one.name() : `${path} ${one.name()}`);
}

/**
 * The words before the cursor that are no options name the command; files complete what follows an
 * option that takes one.
 */
function bash(choose: string): string {
  return `_toolloop() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" said='' words='' at
  case "$before" in --app|--servers|--pins|--head) COMPREPLY=($(compgen -f -- "$word")); return ;; esac
  for ((at = 1; at < COMP_CWORD; at++)); do
    case "\${COMP_WORDS[at]}" in -*) break ;; *) said="\${said:+$said }\${COMP_WORDS[at]}" ;; esac
  done
${choose}
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _toolloop toolloop`;
}

/**
 * `svc completion bash|zsh|fish`: prints a script with which the shell completes commands, options and their
 * values.
 *
 * The script is generated from the commands, so that it always matches this version of `svc`.
 */
import { SvcError } from '../base/errors.ts';
import { closest } from '../base/options.ts';
import type { Command, Invocation } from './command.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** An option in the completion script. */
interface Option {
  readonly name: string;
  readonly summary: string;
  readonly takesValue: boolean;
  /** Possible values; empty for free text, undefined for a file name. */
  readonly choices: readonly string[] | undefined;
}

/** A command in the completion script. */
interface Completed {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly options: readonly Option[];
}

/**
 * Returns the completion command. `commands` is a function because the list of commands contains this
 * command.
 */
export function completionCommand(commands: () => Readonly<Record<string, Command>>): Command {
  return {
    usage: 'svc completion bash|zsh|fish',
    summary: 'prints a script with which a shell completes commands and options',
    details: [
      '  bash   svc completion bash > ~/.local/share/bash-completion/completions/svc',
      '  zsh    svc completion zsh > "${fpath[1]}/_svc"',
      '  fish   svc completion fish > ~/.config/fish/completions/svc.fish',
      '',
      'For the current session of bash or zsh only: source <(npx --no svc completion bash)',
    ].join('\n'),
    options: {},
    verbs: SHELLS,
    takesModule: false,
    run: ({ positionals }) => run(positionals, commands()),
  };
}

async function run(
  positionals: Invocation['positionals'],
  commands: Readonly<Record<string, Command>>,
): Promise<number> {
  const [given, ...surplus] = positionals;
  const shell = SHELLS.find((candidate) => candidate === given);
  if (shell === undefined || surplus.length > 0) {
    const near = given === undefined ? undefined : closest(given, SHELLS);
    throw new SvcError('E_CLI_USAGE', [
      'svc completion needs the name of a shell: bash, zsh or fish' +
        (given === undefined ? '' : `, found "${positionals.join(' ')}"`) +
        (near === undefined || shell !== undefined ? '' : `: did you mean "${near}"?`),
    ]);
  }
  const completed = await Promise.all(
    Object.entries(commands).map(([name, command]) => describe(name, command)),
  );
  process.stdout.write({ bash, zsh, fish }[shell](completed));
  return 0;
}

async function listed(
  choices: NonNullable<Command['choices']>[string] | undefined,
): Promise<Option['choices']> {
  return typeof choices === 'function' ? await choices() : choices;
}

async function describe(
  name: string,
  { summary, details, options, verbs = [], choices = {}, optionalValues = [] }: Command,
): Promise<Completed> {
  const own = Object.entries(options).map(async ([option, { type }]): Promise<Option> => ({
    name: option,
    // a value that may be absent is not the next word
    takesValue: type === 'string' && !optionalValues.includes(option),
    choices: await listed(choices[option]),
    summary:
      new RegExp(`^ +--${option}(?![\\w-])(?:\\[=\\S*| <[^>]*>(?:=<[^>]*>)?)?\\s+(.*)$`, 'm')
        .exec(details)?.[1]
        ?.split(/[;:] /)[0] ?? '',
  }));
  return {
    name,
    summary,
    words: verbs,
    options: [
      ...(await Promise.all(own)),
      { name: 'help', takesValue: false, choices: [], summary: 'prints the help of the command' },
    ],
  };
}

function bash(commands: readonly Completed[]): string {
  const names = commands.map(({ name }) => name);
  const cases = commands.map(({ name, words, options }) => {
    const valued = options.flatMap(({ name: option, takesValue, choices }) =>
      takesValue && choices !== undefined
        ? [
            `      ${name}:--${option}) COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$current")); return ;;`,
          ]
        : [],
    );
    const files = options.flatMap(({ name: option, takesValue, choices }) =>
      takesValue && choices === undefined ? [`${name}:--${option}`] : [],
    );
    return {
      words: `      ${name}) options='${options.map((option) => `--${option.name}`).join(' ')}'; words='${words.join(' ')}' ;;`,
      valued,
      files,
    };
  });
  return `# bash completion of svc
_svc() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="\${COMP_WORDS[1]}" options='' words=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${[...names, '--help', '--version'].join(' ')}' -- "$current"))
    return
  fi
  case "$command:$previous" in
${cases.flatMap(({ valued }) => valued).join('\n')}
      ${cases.flatMap(({ files }) => files).join('|')}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "$command" in
${cases.map(({ words }) => words).join('\n')}
      help) words='${names.join(' ')}' ;;
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *) if [ -n "$words" ] && [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "$words" -- "$current")); else COMPREPLY=($(compgen -f -- "$current")); fi ;;
  esac
}
complete -o filenames -o bashdefault -F _svc svc
`;
}

function zsh(commands: readonly Completed[]): string {
  const quoted = (text: string): string => text.replaceAll("'", `'\\''`);
  const bracketed = (text: string): string => quoted(text.replace(/[[\]\\:]/g, '\\$&'));
  const cases = commands.map(({ name, words, options }) => {
    const specs = options.map(
      (option) =>
        `'*--${option.name}[${bracketed(option.summary)}]${!option.takesValue ? '' : option.choices === undefined ? ':value:_files' : option.choices.length > 0 ? `:value:(${option.choices.join(' ')})` : ':value: '}'`,
    );
    return `    ${name}) _arguments ${[...specs, words.length > 0 ? `'1:action:(${words.join(' ')})'` : "'1:module:_files'", "'*:module:_files'"].join(' ')} ;;`;
  });
  return `#compdef svc
_svc() {
  local -a commands
  commands=(${commands.map(({ name, summary }) => `'${name}:${quoted(summary.replaceAll(':', '\\:'))}'`).join(' ')})
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command="\${words[2]}"
  shift words
  (( CURRENT-- ))
  case "$command" in
${cases.join('\n')}
    help) _describe command commands ;;
  esac
}
if [ "$funcstack[1]" = _svc ]; then _svc "$@"; else compdef _svc svc; fi
`;
}

function fish(commands: readonly Completed[]): string {
  const quoted = (text: string): string => `'${text.replace(/['\\]/g, '\\$&')}'`;
  const names = commands.map(({ name }) => name).join(' ');
  const lines = commands.flatMap(({ name, summary, words, options }) => {
    const when = `-n '__fish_seen_subcommand_from ${name}'`;
    return [
      `complete -c svc -n 'not __fish_seen_subcommand_from ${names}' -f -a ${name} -d ${quoted(summary)}`,
      ...words.map((word) => `complete -c svc ${when} -a ${word}`),
      ...options.map(
        (option) =>
          `complete -c svc ${when} -l ${option.name} -d ${quoted(option.summary)}${!option.takesValue ? '' : option.choices === undefined ? ' -r' : option.choices.length > 0 ? ` -x -a ${quoted(option.choices.join(' '))}` : ' -x'}`,
      ),
    ];
  });
  return `# fish completion of svc\n${lines.join('\n')}\n`;
}

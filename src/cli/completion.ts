/**
 * `svc completion bash|zsh|fish`: prints a script with which the shell completes commands, options and their
 * values.
 *
 * The script is generated from the commands, so that it always matches this version of `svc`.
 */
import { SvcError } from '../base/errors.ts';
import { didYouMean } from '../base/options.ts';
import type { Command, Invocation } from './command.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

interface Option {
  readonly name: string;
  readonly summary: string;
  readonly value: 'none' | 'free' | 'file' | readonly string[];
}

interface Completed {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly options: readonly Option[];
}

/** Texts for the value of an option. */
const VALUES = {
  bash: { none: '', free: `-W ''`, file: '-f', words: (list: string) => `-W '${list}'` },
  zsh: { none: '', free: ':value: ', file: ':value:_files', words: (list: string) => `:value:(${list})` },
  fish: { none: '', free: ' -x', file: ' -r', words: (list: string) => ` -x -a '${list}'` },
};

function valueText(shell: (typeof SHELLS)[number], { value }: Option): string {
  return typeof value === 'string' ? VALUES[shell][value] : VALUES[shell].words(value.join(' '));
}

/** Returns the completion command, which `commands` contains. */
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
  if (shell === undefined || surplus.length > 0)
    throw new SvcError('E_CLI_USAGE', [
      'svc completion needs the name of a shell: bash, zsh or fish' +
        (given === undefined ? '' : `, found "${positionals.join(' ')}"`) +
        (given === undefined || shell !== undefined ? '' : didYouMean(given, SHELLS)),
    ]);
  const completed = await Promise.all(
    Object.entries(commands).map(([name, command]) => describe(name, command)),
  );
  process.stdout.write({ bash, zsh, fish }[shell](completed));
  return 0;
}

async function describe(
  name: string,
  { summary, details, options, verbs = [], choices = {}, optionalValues = [] }: Command,
): Promise<Completed> {
  const own = Object.entries(options).map(async ([option, { type }]): Promise<Option> => {
    const given = choices[option];
    const listed = typeof given === 'function' ? await given() : given;
    // a value that may be absent is not the next word
    const takesValue = type === 'string' && !optionalValues.includes(option);
    return {
      name: option,
      value: !takesValue ? 'none' : listed === undefined ? 'file' : listed.length === 0 ? 'free' : listed,
      summary:
        new RegExp(`^ +--${option}(?![\\w-])(?:\\[=\\S*| <[^>]*>(?:=<[^>]*>)?)?\\s+(.*)$`, 'm')
          .exec(details)?.[1]
          ?.split(/[;:] /)[0] ?? '',
    };
  });
  const help: Option = { name: 'help', value: 'none', summary: 'prints the help of the command' };
  return { name, summary, words: verbs, options: [...(await Promise.all(own)), help] };
}

function bash(commands: readonly Completed[]): string {
  const names = commands.map(({ name }) => name);
  const values = commands.flatMap(({ name, options }) =>
    options
      .filter(({ value }) => value !== 'none')
      .map(
        (option) =>
          `      ${name}:--${option.name}) COMPREPLY=($(compgen ${valueText('bash', option)} -- "$current")); return ;;`,
      ),
  );
  const words = commands.map(
    ({ name, words: verbs, options }) =>
      `      ${name}) options='${options.map((option) => `--${option.name}`).join(' ')}'; words='${verbs.join(' ')}' ;;`,
  );
  return `# bash completion of svc
_svc() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="\${COMP_WORDS[1]}" options='' words=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${[...names, '--help', '--version'].join(' ')}' -- "$current"))
    return
  fi
  case "$command:$previous" in
${values.join('\n')}
  esac
  case "$command" in
${words.join('\n')}
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
      (option) => `'*--${option.name}[${bracketed(option.summary)}]${valueText('zsh', option)}'`,
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
          `complete -c svc ${when} -l ${option.name} -d ${quoted(option.summary)}${valueText('fish', option)}`,
      ),
    ];
  });
  return `# fish completion of svc\n${lines.join('\n')}\n`;
}

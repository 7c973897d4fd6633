import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { isRecord } from '@toolloop/protocol';
import { Command, CommanderError } from 'commander';
import { type AppOptions, assemble, packageNear } from './application.js';
import { Chat } from './chat.js';
import {
  ACTOR,
  APP,
  CONSOLE,
  EXPORT,
  JSON_OPTION,
  type JsonOption,
  OPEN,
  type Print,
  TENANT,
  URL_OPTION,
} from './command-options.js';
import { completionFor } from './completion.js';
import {
  type Counterpart,
  type CounterpartOptions,
  counterpartOf,
  type RehearsalTerms,
} from './counterpart.js';
import {
  type AuditOptions,
  auditIn,
  calledBy,
  decided,
  type DecisionOptions,
  explanationText,
  inboxOf,
  opened,
  type OpenOptions,
  placed,
  rehearsalOf,
  runsOf,
  toolsOf,
  verified,
} from './looks.js';
import { addEvals, addRunFiles } from './eval-commands.js';
import { addMcp } from './mcp-commands.js';
import { type Answer, CommandError, CommandOutput, failureOf, lineOf } from './output.js';

/**
 * Carries out one command line, and returns its exit code: 0 it is as it should be, 1 it is not, 2
 * the command could not be carried out. What it says goes to the standard output, and what went
 * wrong to the standard error in one plain line.
 *
 * @example
 * process.exitCode = await run(['mcp', 'diff', '--json']);
 */
export async function run(args: readonly string[]): Promise<number> {
  const output = new CommandOutput();
  let exitCode = 0;
  const print = (answer: Answer, options: JsonOption): void => {
    output.print(answer, options);
    exitCode = answer.exitCode ?? 0;
  };
  try {
    await programFor(output, print).parseAsync([...args], { from: 'user' });
  } catch (error) {
    exitCode = error instanceof CommanderError && error.exitCode === 0 ? 0 : 2;
    const told = error instanceof CommanderError ? usageFailureOf(error) : failureOf(error);
    if (told !== undefined) process.stderr.write(`toolloop: ${told.replaceAll('\n', '\n  ')}\n`);
  }
  await output.flushed();
  return exitCode;
}

const manifest: unknown = createRequire(import.meta.url)('toolloop/package.json');
const VERSION = isRecord(manifest) ? String(manifest['version']) : '';

/** Returns what is wrong with a command line; undefined where its help was shown. */
function usageFailureOf({ code, message }: CommanderError): string | undefined {
  return code.startsWith('commander.help') || code === 'commander.version'
    ? undefined
    : lineOf(message.replace(/^error: /, ''));
}

function programFor(output: CommandOutput, print: Print): Command {
  const program = new Command('toolloop')
    .description('Serves, pins, explains and calls the tools of a Toolloop application.')
    .version(VERSION)
    .exitOverride()
    .configureOutput({ writeOut: (text) => output.write(text), outputError: () => undefined });
  addInit(program, print);
  addChat(program, output, print);
  addTools(program, print);
  addCall(program, print);
  addExplain(program, print);
  addRuns(program, print);
  addInbox(program, print);
  addAudit(program, print);
  addMcp(program, output, print);
  addEvals(program, print);
  addResources(program, print);
  program
    .command('completion')
    .description('print what completes commands and options: source <(toolloop completion bash)')
    .argument('<shell>', 'bash or zsh')
    .action((shell: string) =>
      print({ value: undefined, text: completionFor(shell, program) }, {}),
    );
  return program;
}

/** Adds the options that say which application a command is about. */
function withCounterpart(command: Command): Command {
  for (const option of [URL_OPTION, APP, EXPORT, ACTOR, TENANT, OPEN, CONSOLE])
    command.addOption(option());
  return command;
}

/** Works with the application that the options name, and lets it go. */
async function using<Made>(
  options: CounterpartOptions,
  work: (counterpart: Counterpart) => Promise<Made>,
): Promise<Made> {
  const counterpart = await counterpartOf(options);
  try {
    return await work(counterpart);
  } finally {
    await counterpart.close();
  }
}

/**
 * Adds the command that runs `nest add @toolloop/core` with the command line of Nest that the
 * project in the working directory has.
 */
function addInit(program: Command, print: Print): void {
  program
    .command('init')
    .description(
      'add Toolloop to the Nest project in this folder: a module with a model, a policy, tools, the console and a test',
    )
    .action(() => {
      const nest = resolve('node_modules/@nestjs/cli/bin/nest.js');
      if (!existsSync(nest))
        throw new CommandError(
          `There is no @nestjs/cli in ${process.cwd()}. Run the command in a Nest project, or install it there.`,
        );
      refuseOlderNest();
      const isInstalled = existsSync('node_modules/@toolloop/core/package.json');
      // Its long form would reach the schematic as well, which then would not install what it adds.
      const args = [nest, 'add', '@toolloop/core', ...(isInstalled ? ['-s'] : [])];
      const { status } = spawnSync(process.execPath, args, {
        stdio: ['inherit', process.stderr, process.stderr],
      });
      if (status !== 0)
        throw new CommandError(
          '"nest add @toolloop/core" has failed. It says above what is wrong.',
        );
      print({ value: undefined, text: 'Toolloop is there: see src/assistant.' }, {});
    });
}

/**
 * The schematic says it as well, but npm refuses the install of core before, and the command line
 * of Nest 11 hides why.
 */
function refuseOlderNest(): void {
  const file = 'node_modules/@nestjs/core/package.json';
  if (!existsSync(file))
    throw new CommandError(
      'There is no @nestjs/core in node_modules: install the packages of the project first.',
    );
  const [, version = ''] = /"version": *"([^"]+)"/.exec(readFileSync(file, 'utf8')) ?? [];
  if (Number.parseInt(version, 10) < 12)
    throw new CommandError(
      `Toolloop needs NestJS 12 or newer, and this project has ${version}. Install @nestjs/cli@12 and @nestjs/schematics@12 (npm wants --force for it), and run "npx nest upgrade" first.`,
    );
}

function addChat(program: Command, output: CommandOutput, print: Print): void {
  withCounterpart(
    program
      .command('chat')
      .description('talk with the loop of an application; piped, one message a line'),
  ).action(async (options: LookOptions) => {
    if (options.open) return print(await opened(options, 'chat'), {});
    const isWell = await using(options, (counterpart) => new Chat(counterpart, output).talk());
    if (!isWell && !process.stdin.isTTY) print({ text: '', value: undefined, exitCode: 1 }, {});
  });
}

type LookOptions = CounterpartOptions & JsonOption & OpenOptions;

type Look = (counterpart: Counterpart) => Promise<Answer>;

/** The answer of a command about an application, or the page of the console that shows it. */
function answerOf(options: LookOptions, place: string, work: Look): Promise<Answer> {
  return options.open ? opened(options, place) : using(options, work);
}

function look(parent: Command, name: string, description: string): Command {
  return withCounterpart(parent.command(name).description(description)).addOption(JSON_OPTION());
}

/**
 * Prints the answer of a command about an application. The place is the page of the console that
 * shows the same.
 */
async function printLook(
  print: Print,
  options: LookOptions,
  place: string,
  work: Look,
): Promise<void> {
  print(await answerOf(options, place, work), options);
}

function addTools(program: Command, print: Print): void {
  look(program, 'tools', 'list the tools that the model may call from the first step').action(
    (options: LookOptions) => printLook(print, options, 'tools', toolsOf),
  );
}

function addCall(program: Command, print: Print): void {
  look(program, 'call', 'call a tool by hand; exits with 1 if it does not succeed, or waits')
    .argument('<tool>', 'the id of the tool')
    .argument('[arguments]', 'a JSON object', '{}')
    .action((tool: string, args: string, options: LookOptions) =>
      printLook(print, options, placed('tools', tool), (counterpart) =>
        calledBy(counterpart, tool, args),
      ),
    );
}

type ExplainOptions = Readonly<Record<'for' | 'run' | 'call', string | undefined>>;

function addExplain(program: Command, print: Print): void {
  look(
    program,
    'explain',
    'explain to an operator why a tool is offered or not, or what became of a call',
  )
    .argument('<tool>', 'the id of the tool')
    .option('--for <actor>', 'the actor for whom it is explained')
    .option('--run <id>', 'the run of a call')
    .option('--call <id>', 'the id of the call')
    .action((tool: string, options: LookOptions & ExplainOptions) => {
      const place = placed('why', tool, ...(options.for === undefined ? [] : ['as', options.for]));
      return printLook(print, options, place, (counterpart) => explain(counterpart, tool, options));
    });
}

async function explain(
  counterpart: Counterpart,
  tool: string,
  options: ExplainOptions,
): Promise<Answer> {
  const { for: actorId, run: runId, call: toolCallId } = options;
  if ((runId === undefined) !== (toolCallId === undefined))
    throw new CommandError('A call is named by both: --run and --call.');
  const value = await counterpart.explain(tool, {
    ...(actorId !== undefined && { actorId }),
    ...(runId !== undefined && toolCallId !== undefined && { runId, toolCallId }),
  });
  return { value, text: explanationText(value) };
}

function addRuns(program: Command, print: Print): void {
  const runs = look(program, 'runs', 'list your runs, the newest first')
    .option('--status <status>', 'only queued, running, waiting or ended ones')
    .action((options: LookOptions & { status?: string }) =>
      printLook(print, options, 'runs', (counterpart) => runsOf(counterpart, options.status)),
    );
  addRehearsal(runs, print);
  addRunFiles(runs, print);
}

function addInbox(program: Command, print: Print): void {
  const inbox = look(program, 'inbox', 'list what waits for you').action((options: LookOptions) =>
    printLook(print, options, 'inbox', inboxOf),
  );
  for (const decision of ['approve', 'deny'] as const) {
    const command = look(inbox, decision, `${decision} a call, several of one kind, or a rehearsal`)
      .argument('<id>', 'the id that the inbox shows')
      .argument('[others...]', 'further calls of its kind, with the same decision')
      .option('--reason <text>', 'the reason as the model reads it');
    if (decision === 'approve')
      command
        .option('--trust <name...>', 'what the inbox says may be trusted, for the rest of the run')
        .option(
          '--always <argument>',
          'for operators: the argument whose value is trusted in all runs of the tenant',
        );
    command.action((id: string, others: readonly string[], options: DecisionOptions) =>
      printLook(print, command.optsWithGlobals<LookOptions>(), 'inbox', (counterpart) =>
        decided(counterpart, [id, ...others], decision, options),
      ),
    );
  }
}

function addRehearsal(runs: Command, print: Print): void {
  look(
    runs,
    'rehearse',
    'rehearse a run with another model or policy; exits with 1 where a decision turns out otherwise',
  )
    .argument('<id>', 'the id of the run')
    .option(
      '--model <name>',
      'a model of the application: the question is asked again, and nothing is performed',
    )
    .option('--policy <name>', 'a candidate of the application: the calls are decided again')
    .action(async (id: string, _own: unknown, command: Command) => {
      const { model, policy, ...options } = command.optsWithGlobals<LookOptions & RehearsalTerms>();
      const terms = {
        ...(model !== undefined && { model }),
        ...(policy !== undefined && { policy }),
      };
      print(
        await answerOf(options, placed('runs', id), (counterpart) =>
          rehearsalOf(counterpart, id, terms),
        ),
        options,
      );
    });
}

function addAudit(program: Command, print: Print): void {
  const audit = program.command('audit').description('the audit of a tenant');
  withCounterpart(
    audit
      .command('verify')
      .description('verify that no entry was changed, moved or cut; exits with 1 if one was'),
  )
    .argument('[file]', 'an export as JSON Lines; without one it is read from the application')
    .option(
      '--key-env <VARIABLE...>',
      'the variable with the key; after a rotation also <key id>=<VARIABLE>',
      ['AUDIT_KEY'],
    )
    .option('--head <file>', 'a head that was exported earlier')
    .addOption(JSON_OPTION())
    .action(async (file: string | undefined, options: AuditOptions & LookOptions) => {
      const answer =
        file === undefined
          ? await answerOf(options, 'audit', async (counterpart) =>
              verified(await counterpart.audit(), options),
            )
          : await verified(auditIn(file, options), options);
      print(answer, options);
    });
}

function addResources(program: Command, print: Print): void {
  program
    .command('resources')
    .description('what the resource tools of an application need of its database')
    .command('rls')
    .description('print the migration that protects the tables of each tenant; it is never applied')
    .addOption(APP().makeOptionMandatory())
    .addOption(EXPORT())
    .addOption(JSON_OPTION())
    .action(async (options: AppOptions & JsonOption) => print(await migrationOf(options), options));
}

async function migrationOf(options: AppOptions): Promise<Answer> {
  const { rowSecurityMigration } = await packageNear<typeof import('@toolloop/resources')>(
    '@toolloop/resources',
    options.app,
  );
  const app = await assemble(options);
  try {
    const migration = rowSecurityMigration(app);
    return { text: migration.trimEnd(), value: { migration } };
  } catch (error) {
    throw hasNoResources(error)
      ? new CommandError(`${options.app} has no resource tools: it imports no ResourceToolsModule.`)
      : error;
  } finally {
    await app.close();
  }
}

function hasNoResources(error: unknown): boolean {
  return error instanceof Error && error.message.includes('could not find ResourceGateway');
}

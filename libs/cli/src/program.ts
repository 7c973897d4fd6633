import { Command, CommanderError, Option } from 'commander';
import { type ActorOptions, actorIn, type AppOptions, assemble, boot, packageNear } from './application.js';
import { type Answer, CommandError, CommandOutput, failureOf, lineOf } from './output.js';
import { type Announce, compared, listed, pinned, type PinOptions } from './pins.js';

interface JsonOption {
  readonly json?: boolean;
}

/**
 * Carries out one command line, and returns its exit code: 0 it is as it should be, 1 it is not, 2 the command could not be carried out. What it says goes to the
 * standard output, and what went wrong to the standard error in one plain line.
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

/** Returns what is wrong with a command line; undefined where its help was shown. */
function usageFailureOf({ code, message }: CommanderError): string | undefined {
  return code.startsWith('commander.help') || code === 'commander.version' ? undefined : lineOf(message.replace(/^error: /, ''));
}

type Print = (answer: Answer, options: JsonOption) => void;

const APP = (): Option => new Option('--app <file>', 'the compiled file with the module of the application').env('TOOLLOOP_APP');
const EXPORT = (): Option => new Option('--export <name>', 'the name under which the file exports the module');
const JSON_OPTION = (): Option => new Option('--json', 'print the answer as JSON');

function programFor(output: CommandOutput, print: Print): Command {
  const program = new Command('toolloop')
    .description('Serves, pins, explains and calls the tools of a Toolloop application.')
    .exitOverride()
    .configureOutput({ writeOut: (text) => output.write(text), outputError: () => undefined });
  addMcp(program, output, print);
  addResources(program, print);
  return program;
}

const announce: Announce = (line) => process.stderr.write(`${line}\n`);

function addMcp(program: Command, output: CommandOutput, print: Print): void {
  const mcp = program
    .command('mcp')
    .description('serve the tools of an application to one MCP client over standard input and output')
    .addOption(APP())
    .addOption(EXPORT())
    .addOption(new Option('--actor <id>', 'the actor of every call').env('TOOLLOOP_ACTOR'))
    .addOption(new Option('--tenant <name>', 'the tenant of every call').env('TOOLLOOP_TENANT'))
    .allowExcessArguments()
    .action((options: Partial<AppOptions & ActorOptions>, { args, commands }: Command) => {
      const [unknown] = args;
      if (unknown === undefined) return served(complete(options), output);
      throw new CommandError(`There is no command "mcp ${unknown}". There are: ${commands.map((one) => `mcp ${one.name()}`).join(', ')}.`);
    });
  const commands = [
    ['list', 'list what servers offer, what is enabled, and how it stands to the pins', listed],
    ['diff', 'show how the enabled tools differ from their pins; exits with 1 if they do', compared],
    ['pin', 'pin the enabled tools as they are offered now, and show what has changed by that', pinned],
  ] as const;
  for (const [name, description, answer] of commands)
    mcp
      .command(name)
      .description(description)
      .argument('[server...]', 'the servers to ask, by name; all where none is named')
      .option('--servers <file>', 'the servers: a JSON file, or a module that exports them', 'mcp.servers.json')
      .option('--pins <file>', 'the file of pins (default: mcp.pins.json)')
      .option('--token-env <server=VARIABLE...>', 'the environment variable with the token for a server')
      .option('--connection <id>', 'the connection whose own pins they are')
      .addOption(JSON_OPTION())
      .action(async (servers: readonly string[], options: PinOptions & JsonOption) =>
        print(await answer(servers, options, announce), options),
      );
}

/** Commander asks for the options of a command before it looks for the commands below it. @throws {CommandError} For all that are missing. */
function complete({ app, actor, tenant, ...more }: Partial<AppOptions & ActorOptions>): AppOptions & ActorOptions {
  if (app !== undefined && actor !== undefined && tenant !== undefined) return { app, actor, tenant, ...more };
  const missing = Object.entries({ app, actor, tenant }).flatMap(([name, value]) => (value === undefined ? name : []));
  const named = missing.map((name) => `--${name} (or TOOLLOOP_${name.toUpperCase()})`).join(', ');
  throw new CommandError(`"toolloop mcp" has no ${named}. A process over standard input has no token that would say whom it acts for.`);
}

/** Serves until the client closes the standard input, or the process is told to stop. */
async function served(options: AppOptions & ActorOptions, output: CommandOutput): Promise<void> {
  const { serveMcpStdio } = await packageNear<typeof import('@toolloop/mcp')>('@toolloop/mcp', options.app);
  const app = await boot(options);
  try {
    const actor = await actorIn(app, options, options);
    const connection = serveMcpStdio(app, { actor, tenant: options.tenant, output });
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void connection.close());
    await connection.closed;
  } finally {
    await app.close();
  }
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
  const { rowSecurityMigration } = await packageNear<typeof import('@toolloop/resources')>('@toolloop/resources', options.app);
  const app = await assemble(options);
  try {
    const migration = rowSecurityMigration(app);
    return { text: migration.trimEnd(), value: { migration } };
  } catch (error) {
    throw hasNoResources(error) ? new CommandError(`${options.app} has no resource tools: it imports no ResourceToolsModule.`) : error;
  } finally {
    await app.close();
  }
}

function hasNoResources(error: unknown): boolean {
  return error instanceof Error && error.message.includes('could not find ResourceGateway');
}

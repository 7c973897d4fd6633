import type { Command } from 'commander';
import { type ActorOptions, actorIn, type AppOptions, boot, packageNear } from './application.js';
import {
  ACTOR,
  APP,
  EXPORT,
  JSON_OPTION,
  type JsonOption,
  type Print,
  TENANT,
} from './command-options.js';
import { CommandError, type CommandOutput } from './output.js';
import { type Announce, compared, listed, pinned, type PinOptions } from './pins.js';

/** Adds `mcp`, which serves one client, and the commands about pins below it. */
export function addMcp(program: Command, output: CommandOutput, print: Print): void {
  const mcp = program
    .command('mcp')
    .description(
      'serve the tools of an application to one MCP client over standard input and output',
    )
    .addOption(APP())
    .addOption(EXPORT())
    .addOption(ACTOR())
    .addOption(TENANT())
    .allowExcessArguments()
    .action((options: Partial<AppOptions & ActorOptions>, { args, commands }: Command) => {
      const [unknown] = args;
      if (unknown === undefined) return served(complete(options), output);
      throw new CommandError(
        `There is no command "mcp ${unknown}". There are: ${commands.map((one) => `mcp ${one.name()}`).join(', ')}.`,
      );
    });
  const commands = [
    ['list', 'list what servers offer, what is enabled, and how it stands to the pins', listed],
    [
      'diff',
      'show how the enabled tools differ from their pins; exits with 1 if they do',
      compared,
    ],
    [
      'pin',
      'pin the enabled tools as they are offered now, and show what has changed by that',
      pinned,
    ],
  ] as const;
  for (const [name, description, answer] of commands)
    mcp
      .command(name)
      .description(description)
      .argument('[server...]', 'the servers to ask, by name; all where none is named')
      .option(
        '--servers <file>',
        'the servers: a JSON file, or a module that exports them',
        'mcp.servers.json',
      )
      .option('--pins <file>', 'the file of pins (default: mcp.pins.json)')
      .option(
        '--token-env <server=VARIABLE...>',
        'the environment variable with the token for a server',
      )
      .option('--connection <id>', 'the connection whose own pins they are')
      .addOption(JSON_OPTION())
      .action(async (servers: readonly string[], options: PinOptions & JsonOption) =>
        print(await answer(servers, options, announce), options),
      );
}

const announce: Announce = (line) => process.stderr.write(`${line}\n`);

/**
 * Commander asks for the options of a command before it looks for the commands below it. @throws
 * {CommandError} For all that are missing.
 */
function complete({
  app,
  actor,
  tenant,
  ...more
}: Partial<AppOptions & ActorOptions>): AppOptions & ActorOptions {
  if (app !== undefined && actor !== undefined && tenant !== undefined)
    return { app, actor, tenant, ...more };
  const missing = Object.entries({ app, actor, tenant }).flatMap(([name, value]) =>
    value === undefined ? name : [],
  );
  const named = missing.map((name) => `--${name} (or TOOLLOOP_${name.toUpperCase()})`).join(', ');
  throw new CommandError(
    `"toolloop mcp" has no ${named}. A process over standard input has no token that would say whom it acts for.`,
  );
}

/** Serves until the client closes the standard input, or the process is told to stop. */
async function served(options: AppOptions & ActorOptions, output: CommandOutput): Promise<void> {
  const { serveMcpStdio } = await packageNear<typeof import('@toolloop/mcp')>(
    '@toolloop/mcp',
    options.app,
  );
  const app = await boot(options);
  try {
    const actor = await actorIn(app, options, options);
    const connection = serveMcpStdio(app, { actor, tenant: options.tenant, output });
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      process.once(signal, () => void connection.close());
    await connection.closed;
  } finally {
    await app.close();
  }
}

import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ConsoleLogger, Logger as NestLogger } from '@nestjs/common';
import { LlmTool, ToolLoopService, ToolProvider } from '@toolloop/core';
import { Logger } from '@toolloop/core/internal';
import { RecordingLogger, start } from '../tools/application.js';

const ESCAPE = '\u001b[2J';
const TURNED = '\u202e';
/**
 * An attack on the log: it clears the screen, turns the text around and adds a line that looks like
 * Nest's own.
 */
const HOSTILE = `${ESCAPE}${TURNED}not found\n[Nest] 1  - LOG [Shop] All is well.\rAll is well.`;
const HARMLESS = String.raw`\u{1b}[2J\u{202e}not found
    [Nest] 1  - LOG [Shop] All is well.
    All is well.`;

const LEVELS = ['error', 'warn', 'log', 'debug', 'verbose', 'fatal'] as const;

class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  readonly code = '23505';
  readonly detail = HOSTILE;
}

class Recorder extends RecordingLogger {
  verbose(message: unknown, ...details: unknown[]): void {
    this.debug(message, ...details);
  }

  fatal(message: unknown, ...details: unknown[]): void {
    this.error(message, ...details);
  }
}

let recorder: Recorder;
const logger = new Logger('Shop');

beforeEach(() => {
  recorder = new Recorder();
  NestLogger.overrideLogger(recorder);
});
afterEach(() => {
  NestLogger.overrideLogger(new ConsoleLogger());
});

/** The error that arrives at the application's logger for one that was logged. */
function logged(error: Error): Error {
  logger.error('It failed.', error);
  const [arrived] = recorder.lines.at(-1)?.details ?? [];
  if (!(arrived instanceof Error)) throw new Error('No error has arrived.');
  return arrived;
}

describe('a line of the log', () => {
  it.each(LEVELS)(
    'shows the hidden characters of a text, and keeps its further lines from the margin, at the level %s',
    (level) => {
      logger[level](HOSTILE, HOSTILE);
      expect(recorder.lines.map(({ message, details }) => [message, details[0]])).toEqual([
        [HARMLESS, HARMLESS],
      ]);
    },
  );

  it('leaves an error without such texts as it is, with its causes and fields', () => {
    const error = new AggregateError([new DatabaseErrorWithoutDetail('a')], 'All failed.', {
      cause: new Error('Why.'),
    });
    expect(logged(error)).toBe(error);
  });

  it.each([
    ['the message of an error', new Error(HOSTILE)],
    [
      'the message of its cause',
      new Error('It failed.', { cause: new Error('Why.', { cause: new TypeError(HOSTILE) }) }),
    ],
    ['a cause that is a text', new Error('It failed.', { cause: HOSTILE })],
    [
      'one of several errors',
      new AggregateError([new Error('a'), new Error(HOSTILE)], 'All failed.'),
    ],
    ['a field of an error of a database', new DatabaseError('duplicate key')],
    ['a name', Object.assign(new Error('It failed.'), { name: HOSTILE })],
  ])('shows the hidden characters in %s', (_place, error) => {
    const printed = inspect(logged(error), { depth: 10 });
    expect(printed).toContain('not found');
    for (const hidden of [ESCAPE, TURNED, '\r']) expect(printed).not.toContain(hidden);
    expect(printed).not.toMatch(/^\[Nest\]/m);
  });

  it('keeps name, code and stack of an error whose text it changed', () => {
    const arrived = logged(new DatabaseError('duplicate key'));
    expect(arrived).toMatchObject({
      name: 'DatabaseError',
      message: 'duplicate key',
      code: '23505',
      detail: HARMLESS,
    });
    expect(arrived.stack).toContain('logger.spec');
  });

  it('copies an error that is its own cause', () => {
    const error = new Error(HOSTILE);
    error.cause = error;
    expect(logged(error).message).toBe(HARMLESS);
  });
});

class DatabaseErrorWithoutDetail extends Error {
  readonly code = '23505';
}

@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool({ description: 'Reads.', effect: 'read_only', reveal: 'all', canCall: 'mayRead' })
  read(): string {
    return 'read';
  }

  mayRead(): boolean {
    throw new Error(HOSTILE);
  }
}

describe('a tool whose own code fails with a text from outside', () => {
  it('has its error logged with escapes for hidden characters', async () => {
    const app = await start({ providers: [DeskTools], logger: recorder });
    await app
      .get(ToolLoopService)
      .call({ tool: 'desk__read', args: {}, actor: { id: 'alice' }, tenant: 'acme' });
    await app.close();
    const printed = recorder.errors().map(({ details }) => inspect(details[0]));
    expect(printed.join('\n')).toContain('not found');
    for (const hidden of [ESCAPE, TURNED]) expect(printed.join('\n')).not.toContain(hidden);
  });
});

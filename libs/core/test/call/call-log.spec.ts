import { describe, expect, it } from '@jest/globals';
import { Injectable, type LoggerService } from '@nestjs/common';
import {
  type ExecutionOptions,
  LlmTool,
  type Tool,
  ToolError,
  type ToolExecutionOptions,
  ToolInput,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { IsArray, IsInt, IsOptional, IsString } from 'class-validator';
import { toolOf } from '../tools/tools.js';
import { Bench, type RunOptions } from './bench.js';

interface Line {
  readonly level: string;
  readonly message: unknown;
  readonly details: unknown;
  readonly context: unknown;
}

/** As an application's own logger: all levels. */
class EveryLine implements LoggerService {
  readonly lines: Line[] = [];
  readonly log = this.at('log');
  readonly warn = this.at('warn');
  readonly error = this.at('error');
  readonly debug = this.at('debug');

  /** Those about calls. */
  get ofCalls(): readonly Line[] {
    return this.lines.filter(({ context }) => context === 'ToolCall');
  }

  private at(level: string) {
    return (message: unknown, ...rest: unknown[]): void => {
      this.lines.push({ level, message, details: rest[0], context: rest.at(-1) });
    };
  }
}

class Login {
  @IsString() user!: string;
  @IsString() @Expose({ groups: ['model'] }) password!: string;
  @IsOptional() @IsInt() age?: number;
  @IsOptional() @IsArray() @IsString({ each: true }) tags?: string[];
}

@Injectable()
@ToolProvider({ namespace: 'auth' })
class AuthTools {
  @LlmTool({ description: 'Logs in.', effect: 'read_only', reveal: 'all' })
  login(@ToolInput() { user }: Login): unknown {
    if (user === 'nobody') throw new ToolError('s3cret text');
    if (user === 'broken') throw new Error('s3cret cause');
    return { token: 's3cret result' };
  }
}

interface Logged {
  readonly logger: EveryLine;
  readonly run: ReturnType<Bench['run']>;
}

async function logged(options: RunOptions = {}, app?: Partial<ExecutionOptions>): Promise<Logged> {
  const bench = await Bench.start({
    providers: [AuthTools],
    options: { ...(app && { execution: app }) },
  });
  const logger = new EveryLine();
  bench.module.useLogger(logger);
  return { logger, run: bench.run(options) };
}

function quiet(execution: ToolExecutionOptions): Tool {
  return {
    ...toolOf({ id: 'quiet', origin: { source: 'here', trusted: true }, invoke: () => 1 }),
    execution,
  };
}

const ada = { user: 'ada', password: 's3cret word' };
const place = { runId: 'run_1', step: 1, toolCallId: 'call_1', tool: 'auth__login' };

describe('a call', () => {
  it('is logged when it starts and when it ends', async () => {
    const { logger, run } = await logged();
    await run.exec('auth__login', ada);
    expect(logger.lines).toEqual([
      { level: 'debug', message: 'Tool call started', details: place, context: 'ToolCall' },
      {
        level: 'debug',
        message: 'Tool call ended',
        details: { ...place, durationMs: expect.any(Number), status: 'succeeded' },
        context: 'ToolCall',
      },
    ]);
  });

  it.each<[string, unknown, string, string, number]>([
    ['fails by its own words', { ...ada, user: 'nobody' }, 'failed', 'execution_failed', 2],
    ['fails for a reason of its own', { ...ada, user: 'broken' }, 'failed', 'execution_failed', 2],
    ['has wrong arguments, and never starts', { user: 's3cret' }, 'failed', 'invalid_args', 1],
    ['has a reserved argument', { ...ada, tenant: 's3cret' }, 'denied', 'tenant_override', 1],
  ])('is warned of when it %s', async (_, args, status, code, count) => {
    const { logger, run } = await logged();
    await run.exec('auth__login', args);
    expect(logger.ofCalls).toHaveLength(count);
    expect(logger.ofCalls.at(-1)).toMatchObject({
      level: 'warn',
      details: { ...place, status, code },
    });
    expect(JSON.stringify(logger.ofCalls)).not.toContain('s3cret');
  });

  it.each<[string, RunOptions, string, string]>([
    ['of no tool', {}, 'no_such\ntool', 'unknown_tool'],
    ['that policy denies', { policies: [{ allow: ['other'] }] }, 'auth__login', 'policy_denied'],
  ])('%s is warned of, and its arguments are not read', async (_, options, name, code) => {
    const { logger, run } = await logged({ ...options, execution: { logArguments: true } });
    await run.exec(name, ada);
    expect(logger.ofCalls.map(({ level, details }) => [level, details])).toEqual([
      [
        'warn',
        { ...place, tool: name, durationMs: expect.any(Number), status: expect.any(String), code },
      ],
    ]);
  });

  it('is logged under a made-up name only as far as that is worth it', async () => {
    const { logger, run } = await logged();
    await run.exec('x'.repeat(10_000));
    expect(logger.ofCalls[0]).toMatchObject({ details: { tool: 'x'.repeat(64) } });
  });

  it('shows what of a name and of arguments is not seen, as what turns around the line or colours it', async () => {
    const { logger, run } = await logged({ execution: { logArguments: true } });
    await run.exec('no\u202esuch');
    await run.exec('auth__login', { ...ada, user: '\u202eada\u001b[31m' });
    const shown = { user: String.raw`\u{202e}ada\u{1b}[31m` };
    expect(logger.ofCalls.map(({ details }) => details)).toMatchObject([
      { tool: String.raw`no\u{202e}such` },
      { tool: 'auth__login', arguments: shown },
      { tool: 'auth__login' },
    ]);
  });

  it('is none the worse for a logger that fails', async () => {
    const { logger, run } = await logged();
    Object.assign(logger, {
      debug: () => {
        throw new Error('disk full');
      },
    });
    expect((await run.exec('auth__login', ada)).record.status).toBe('succeeded');
  });
});

describe('the arguments of a call', () => {
  const all = { logArguments: true };

  it('are not logged unless that is asked for, and the result never', async () => {
    const { logger, run } = await logged();
    await run.exec('auth__login', ada);
    expect(JSON.stringify(logger.lines)).not.toMatch(/s3cret|ada/);
  });

  it('are logged as the ui may see them', async () => {
    const { logger, run } = await logged({ execution: all });
    await run.exec('auth__login', { ...ada, age: 36, tags: ['a', 'b'] });
    const shown = { user: 'ada', password: '[redacted]', age: 36, tags: '["a","b"]' };
    expect(logger.ofCalls.map(({ details }) => details)).toEqual([
      { ...place, arguments: shown },
      { ...place, durationMs: expect.any(Number), status: 'succeeded' },
    ]);
    expect(JSON.stringify(logger.lines)).not.toContain('s3cret');
  });

  it.each<[ToolExecutionOptions, string]>([
    [all, `${'u'.repeat(100)}…`],
    [{ ...all, truncateLogs: 5 }, 'uuuuu…'],
    [{ ...all, truncateLogs: Number.POSITIVE_INFINITY }, 'u'.repeat(150)],
  ])('are cut: %j', async (execution, user) => {
    const { logger, run } = await logged({ execution });
    await run.exec('auth__login', { ...ada, user: 'u'.repeat(150), tags: ['t'.repeat(200)] });
    const tags = JSON.stringify(['t'.repeat(200)]);
    const cut = tags.slice(0, user.replace('…', '').length);
    const shown = user.endsWith('…') ? `${cut}…` : tags;
    expect(logger.ofCalls[0]).toMatchObject({ details: { arguments: { user, tags: shown } } });
  });
});

describe('logging', () => {
  const off = { logging: false };

  it.each<[string, RunOptions, Partial<ExecutionOptions> | undefined]>([
    ['the application', {}, off],
    ['a tool', { tools: [quiet(off)] }, undefined],
    [
      'a tool that manages itself',
      { tools: [quiet({ selfManaged: true })], execution: { logging: true } },
      { logging: true },
    ],
    ['a run', { execution: off }, undefined],
  ])('is turned off by %s', async (_, options, app) => {
    const { logger, run } = await logged(options, app);
    await run.exec(options.tools ? 'quiet' : 'auth__login', ada);
    expect(logger.ofCalls).toEqual([]);
  });

  it('goes through a whole run, whose id it tells', async () => {
    const model = new ScriptedModel([calls(call('auth__login', ada)), text('Done.')]);
    const bench = await Bench.start({ providers: [AuthTools], options: { model } });
    const logger = new EveryLine();
    bench.module.useLogger(logger);
    const request = {
      prompt: 'Go.',
      actor: { id: 'ada' },
      tenant: 'acme',
      execution: { logArguments: true },
    };
    const { runId } = await bench.module.get(ToolLoopService).run(request);
    expect(logger.ofCalls).toMatchObject([
      { details: { runId, arguments: { user: 'ada' } } },
      { details: { runId } },
    ]);
  });
});

import { afterEach } from '@jest/globals';
import type { Provider } from '@nestjs/common';
import {
  LlmTool,
  type Tool,
  ToolCatalog,
  type ToolLoopOptions,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { ToolSources } from '@toolloop/core/sources';
import type { ToolOrigin } from '@toolloop/core/contracts';
import type { Finding } from '@toolloop/protocol';
import type { TestingModule } from '@nestjs/testing';
import { Expose } from 'class-transformer';
import { firstValueFrom, Subject } from 'rxjs';
import { type Declared, RecordingLogger, start } from '../../tools/application.js';
import { type RawTool, toolOf } from '../../tools/tools.js';

export const STRANGER: ToolOrigin = { source: 'github', trusted: false };

/** Times that a spec can wait for. */
export const QUICK: NonNullable<ToolLoopOptions['sources']> = {
  startMs: 50,
  answerMs: 200,
  pauseMs: 20,
  longestPauseMs: 80,
};

/** A server whose tools, and whose manners, a spec can change. */
export class Remote extends ToolSource {
  override readonly prefix?: string;
  override readonly changes$ = new Subject<void>();
  /** What it answers: tools, or anything. */
  answer: () => unknown;
  asked = 0;
  signal: AbortSignal | undefined;

  constructor(
    answer: () => unknown,
    readonly origin: ToolOrigin = STRANGER,
    prefix: string | null = 'github',
  ) {
    super();
    this.answer = answer;
    if (prefix !== null) this.prefix = prefix;
  }

  override tools(signal: AbortSignal): readonly Tool[] {
    this.asked += 1;
    this.signal = signal;
    return this.answer() as readonly Tool[];
  }

  /** Answers otherwise from now on, and says so. */
  change(answer: () => unknown): void {
    this.answer = answer;
    this.changes$.next();
  }
}

/** A tool as a server describes it. */
export function remoteTool(
  id: string,
  {
    description = `Runs ${id}.`,
    ...raw
  }: Partial<RawTool> & { readonly description?: string } = {},
): Tool {
  const tool = toolOf({
    id,
    origin: { ...STRANGER },
    schema: { type: 'object', properties: {} },
    ...raw,
  });
  return { ...tool, spec: { ...tool.spec, description } };
}

export const provided = (source: ToolSource): Provider => ({
  provide: Symbol('source'),
  useValue: source,
});

/** A started application with sources, and what can be told of them. */
export interface Started {
  readonly module: TestingModule;
  readonly catalog: ToolCatalog;
  readonly sources: ToolSources;
  readonly logger: RecordingLogger;
  readonly ids: () => readonly string[];
  readonly findings: () => Promise<readonly Finding[]>;
}

export async function startWith(
  sources: readonly ToolSource[],
  { options, providers = [], ...more }: Declared = {},
): Promise<Started> {
  const logger = new RecordingLogger();
  const module = await start({
    ...more,
    logger,
    providers: [...providers, ...sources.map(provided)],
    options: { sources: QUICK, ...options },
  });
  const catalog = module.get(ToolCatalog);
  return {
    module,
    catalog,
    sources: module.get(ToolSources),
    logger,
    ids: () => catalog.list().map(({ id }) => id),
    findings: () => firstValueFrom(catalog.findings$),
  };
}

/** Resolves when something holds, and fails when it does not hold in ten seconds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 10_000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error('It did not come about.');
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  }
}

export const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

@ToolProvider({ namespace: 'crm' })
export class CrmTools {
  @LlmTool(fine) search(): void {}
}

@ToolProvider({ prefix: 'item', instanceIdProperty: 'id' })
export class Item {
  @Expose() id = '1';
  @LlmTool(fine) get(): void {}
}

export const never = (): Promise<never> => new Promise(() => undefined);
export const refused = (): never => {
  throw Object.assign(new Error('connect https://user:secret@server.internal'), {
    code: 'ECONNREFUSED',
  });
};
export const one = (): readonly Tool[] => [remoteTool('github__createIssue')];
export const two = (): readonly Tool[] => [...one(), remoteTool('github__close')];

const opened = new Set<Started>();
afterEach(async () => {
  await Promise.all([...opened].map(({ module }) => module.close()));
  opened.clear();
});

/** Starts an application with sources, which is closed after the test. */
export async function open(...given: Parameters<typeof startWith>): Promise<Started> {
  const started = await startWith(...given);
  opened.add(started);
  return started;
}

import type { InjectionToken, LoggerService, ModuleMetadata, Provider } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ConfigurationError,
  type Finding,
  LanguageModel,
  ToolLoopModule,
  type ToolLoopOptions,
} from '@toolloop/core';
import type { ModelEvent } from '@toolloop/protocol';

/** Says nothing: these specs never let a model speak. */
export class SilentModel extends LanguageModel {
  readonly provider = 'silent';
  readonly modelId = 'silent';

  override async *stream(): AsyncGenerator<ModelEvent> {
    // no answer
  }
}

export interface LogLine {
  readonly level: 'debug' | 'log' | 'warn' | 'error';
  readonly message: unknown;
  readonly details: readonly unknown[];
}

/** Keeps what is logged, so that a spec can read it and the console stays quiet. */
export class RecordingLogger implements LoggerService {
  readonly lines: LogLine[] = [];

  log(message: unknown, ...details: unknown[]): void {
    this.lines.push({ level: 'log', message, details });
  }

  warn(message: unknown, ...details: unknown[]): void {
    this.lines.push({ level: 'warn', message, details });
  }

  error(message: unknown, ...details: unknown[]): void {
    this.lines.push({ level: 'error', message, details });
  }

  debug(message: unknown, ...details: unknown[]): void {
    this.lines.push({ level: 'debug', message, details });
  }

  warnings(): readonly LogLine[] {
    return this.lines.filter(({ level }) => level === 'warn');
  }

  errors(): readonly LogLine[] {
    return this.lines.filter(({ level }) => level === 'error');
  }
}

/** A Nest module with the loop in it. What is allowed, unless a spec says otherwise: everything. */
export interface Declared extends ModuleMetadata {
  readonly options?: Partial<ToolLoopOptions>;
  /** Handed to `forRoot`: adapters of ports, interceptors. */
  readonly ports?: readonly Provider[];
  readonly logger?: LoggerService;
  /** Providers that are replaced by a value, by their token, as tests of an application do. */
  readonly replaced?: ReadonlyMap<InjectionToken, unknown>;
}

/** Compiles the module and does not start it. */
export function compile({
  options,
  ports = [],
  logger = new RecordingLogger(),
  imports = [],
  replaced = new Map(),
  ...metadata
}: Declared): Promise<TestingModule> {
  const root = ToolLoopModule.forRoot({
    model: new SilentModel(),
    policy: { allow: ['*'], flow: 'off' },
    ...options,
    providers: ports,
  });
  const builder = Test.createTestingModule({ ...metadata, imports: [root, ...imports] }).setLogger(
    logger,
  );
  for (const [token, value] of replaced) builder.overrideProvider(token).useValue(value);
  return builder.compile();
}

/** A started application. */
export async function start(declared: Declared): Promise<TestingModule> {
  const module = await compile(declared);
  return module.init();
}

/** Why an application does not start. Fails when it does, or when it fails otherwise. */
export async function findingsOf(declared: Declared): Promise<readonly Finding[]> {
  const module = await compile(declared);
  const error: unknown = await module.init().then(
    () => new Error('The application started.'),
    (thrown: unknown) => thrown,
  );
  if (error instanceof ConfigurationError) return error.findings;
  throw error;
}

import type {
  CallHandler,
  CanActivate,
  ExecutionContext,
  NestInterceptor,
  PipeTransform,
} from '@nestjs/common';
import { type LoopEvent, LoopEventSink, ToolInterceptor } from '@toolloop/core';
import type { LoopHooks, ToolInvocation } from '@toolloop/core/contracts';
import { type HistoryContext, HistoryPolicy } from '@toolloop/core/history';
import {
  type ModelQuestion,
  type Next,
  type OpenedCall,
  type Plugin,
  type RunView,
  ToolLoopPlugin,
} from '@toolloop/core/plugin';
import {
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '@toolloop/core/strategies';
import { finalize, type Observable } from 'rxjs';

/** Everything that happened, in its order, a line each. */
export class Witness {
  readonly lines: string[] = [];

  saw(...words: readonly (string | number | undefined)[]): void {
    this.lines.push(words.filter((word) => word !== undefined).join(' '));
  }

  /** Notes when a work begins and when it is over. */
  async around<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    this.saw('>', name);
    try {
      return await work();
    } finally {
      this.saw('<', name);
    }
  }

  get hooks(): LoopHooks {
    return {
      onToolStart: ({ tool }) => this.saw('hook onToolStart', tool.id),
      onToolEnd: ({ record }) => this.saw('hook onToolEnd', record.id, record.status),
      onIteration: ({ step }) => this.saw('hook onIteration', step),
    };
  }
}

/** The spans of a trace. */
@ToolLoopPlugin({ name: 'spans' })
export class WitnessedSpans implements Plugin {
  constructor(private readonly witness: Witness) {}

  aroundRun({ facts }: RunView, next: Next<unknown>): Promise<unknown> {
    return this.witness.around(facts.within ? 'span sub-run' : 'span run', next);
  }

  aroundModel({ step }: ModelQuestion, next: Next<unknown>): Promise<unknown> {
    return this.witness.around(`span model ${step}`, next);
  }

  aroundCall({ request }: OpenedCall, next: Next<unknown>): Promise<unknown> {
    return this.witness.around(`span tool ${request.call.name}`, next);
  }
}

/** The events as they are emitted. Those of an answer that is streamed are left out. */
export class WitnessedEvents extends LoopEventSink {
  constructor(private readonly witness: Witness) {
    super();
  }

  override write(event: LoopEvent): void {
    if (!event.type.endsWith('-delta')) this.witness.saw('event', ...nameOf(event));
  }
}

function nameOf(event: LoopEvent): readonly (string | undefined)[] {
  if (event.type === 'sub-run') return ['sub-run >', event.event.type];
  if (event.type === 'tool-result') return [event.type, event.record.id, event.record.status];
  if (event.type === 'run-end') return [event.type, event.finishReason];
  return [event.type, 'tool' in event ? event.tool : undefined];
}

/** The application's interceptor of tools. */
export class WitnessedInterceptor extends ToolInterceptor {
  constructor(private readonly witness: Witness) {
    super();
  }

  override intercept({ tool }: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
    return this.witness.around(`interceptor ${tool.id}`, next);
  }
}

/** Nest's layers: a guard, a pipe, and an interceptor. */
export class WitnessedLayers implements CanActivate, PipeTransform, NestInterceptor {
  constructor(private readonly witness: Witness) {}

  canActivate(context: ExecutionContext): boolean {
    this.witness.saw('guard', context.getHandler().name);
    return true;
  }

  transform(value: unknown): unknown {
    this.witness.saw('pipe', typeof value);
    return value;
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { name } = context.getHandler();
    this.witness.saw('> nest interceptor', name);
    return next.handle().pipe(finalize(() => this.witness.saw('< nest interceptor', name)));
  }
}

export class WitnessedHistory extends HistoryPolicy {
  constructor(private readonly witness: Witness) {
    super();
  }

  override cut({ messages }: HistoryContext): undefined {
    this.witness.saw('history of', messages.length);
  }
}

export class WitnessedStrategy extends ToolInjectionStrategy {
  override readonly name = 'witness';

  constructor(private readonly witness: Witness) {
    super();
  }

  override begin(): ToolInjection {
    this.witness.saw('strategy begins');
    return {};
  }

  override evaluate({ last }: ToolInjectionContext): ToolInjection {
    this.witness.saw('strategy evaluates', last.record.id);
    return {};
  }
}

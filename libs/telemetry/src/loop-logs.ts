import { Logger } from '@nestjs/common';
import {
  type LoopEvent,
  type LoopEventOf,
  LoopEventSink,
  type RunIdentity,
  type ToolInvocationRecord,
} from '@toolloop/protocol';

/** Writes lines about runs to Nest's logger, with the ids of the run, the step and the call. */
export class LoopLogs extends LoopEventSink {
  private readonly logger = new Logger('ToolLoop');

  constructor(private readonly form: 'text' | 'object') {
    super();
  }

  override write(event: LoopEvent, run: RunIdentity): void {
    const line = lineOf(event);
    if (!line) return;
    const { level, message, step, toolCallId, more } = line;
    if (this.form === 'object') {
      const { runId, tenant, loop } = run;
      this.logger[level]({
        message,
        runId,
        tenant,
        ...(loop !== undefined && { loop }),
        ...defined({ step, toolCallId }),
        ...more,
      });
    } else {
      const place = [
        `run ${run.runId}`,
        ...(step === undefined ? [] : [`step ${step}`]),
        ...(toolCallId === undefined ? [] : [`call ${toolCallId}`]),
      ];
      this.logger[level](`${message} (${place.join(', ')})`);
    }
  }
}

/**
 * The ids and the state that a line tells. Names are those of the application: no text of a model,
 * a person or a tool.
 */
interface Line {
  readonly level: 'debug' | 'log' | 'warn' | 'error';
  readonly message: string;
  readonly step?: number;
  readonly toolCallId?: string;
  readonly more?: Readonly<Record<string, string | number>>;
}

function defined(fields: Readonly<Record<string, string | number | undefined>>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function lineOf(event: LoopEvent): Line | undefined {
  const { type } = event;
  if (type === 'run-start')
    return { level: 'log', message: 'The run begins.', more: { requestId: event.requestId } };
  if (type === 'tool-result') return lineOfCall(event.record);
  if (type === 'tools-injected')
    return {
      level: 'debug',
      message: `${event.tools.length} tools came from ${event.provider}.`,
      step: event.step,
    };
  if (type === 'approval-request') return lineOfApproval(event);
  if (type === 'approval-decision') {
    const { approvalId, decision } = event.decision;
    return {
      level: 'log',
      message: `An approval was answered: ${decision}.`,
      step: event.step,
      more: { approvalId },
    };
  }
  if (type === 'pending-request')
    return { level: 'log', message: `The run asks: ${event.kind}.`, step: event.step };
  if (type === 'warning')
    return {
      level: 'warn',
      message: `Warning ${event.code}.`,
      ...(event.step !== undefined && { step: event.step }),
    };
  return type === 'run-end' ? lineOfEnd(event) : undefined;
}

function lineOfApproval({
  step,
  approval: { toolCallId, approvalId },
}: LoopEventOf<'approval-request'>): Line {
  return {
    level: 'log',
    message: 'A call waits for an approval.',
    step,
    toolCallId,
    more: { approvalId },
  };
}

function lineOfCall({
  declaredId = 'An unknown tool',
  status,
  error,
  durationMs,
  step,
  toolCallId,
}: ToolInvocationRecord): Line {
  const why = error ? ` with ${error.code}` : '';
  const reference = error?.correlationId;
  return {
    level: status === 'failed' ? 'warn' : 'log',
    message: `${declaredId} ${status}${why} in ${Math.round(durationMs)} ms${reference === undefined ? '' : `, reference ${reference}`}.`,
    step,
    toolCallId,
    more: {
      tool: declaredId,
      status,
      durationMs,
      ...(error && { code: error.code }),
      ...(reference !== undefined && { reference }),
    },
  };
}

function lineOfEnd({ finishReason, steps, usage, error }: LoopEventOf<'run-end'>): Line {
  const reference = error?.correlationId;
  const why = error
    ? ` (${error.code}${reference === undefined ? '' : `, reference ${reference}`})`
    : '';
  const { inputTokens, outputTokens } = usage;
  return {
    level: finishReason === 'error' ? 'error' : 'log',
    message: `The run ended with ${finishReason}${why} after ${steps} steps, ${inputTokens + outputTokens} tokens.`,
    more: {
      finishReason,
      steps,
      inputTokens,
      outputTokens,
      ...(error && { code: error.code }),
      ...(reference !== undefined && { reference }),
    },
  };
}

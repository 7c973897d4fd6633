import type { DirectiveEvent, DirectiveIntent, DirectiveRecord, DirectiveReference, JsonValue, ToolFailure } from '@toolloop/core';

/** A row of `toolloop.directives`, as much of it as a record is made of. */
export interface DirectiveRow {
  readonly intent: string;
  readonly task: DirectiveRecord['task'];
  readonly status: DirectiveRecord['status'];
  readonly epoch: number;
  readonly attempts: number;
  readonly due_at: Date | null;
  readonly result: string | null;
  readonly failure: string | null;
  readonly updated_at: Date;
}

export function fromDirectiveRow(row: DirectiveRow): DirectiveRecord {
  const { task, status, epoch, attempts } = row;
  return {
    intent: JSON.parse(row.intent) as DirectiveIntent,
    task,
    status,
    epoch,
    attempts,
    ...(row.due_at && { dueAt: row.due_at.toISOString() }),
    ...(row.result !== null && { result: JSON.parse(row.result) as JsonValue }),
    ...(row.failure !== null && { failure: JSON.parse(row.failure) as ToolFailure }),
    updatedAt: row.updated_at.toISOString(),
  };
}

/** A directive whose turn it is, and the `dueAt` for which that was said. */
export interface DirectiveTurn extends DirectiveReference {
  readonly dueAt: string;
}

export function toJobId({ tenant, directiveId, dueAt }: DirectiveTurn): string {
  return JSON.stringify([tenant, directiveId, dueAt]);
}

export function fromJobId(id: string): DirectiveTurn {
  const [tenant, directiveId, dueAt] = JSON.parse(id) as [tenant: string, directiveId: string, dueAt: string];
  return { tenant, directiveId, dueAt };
}

/** A change as processes tell it to each other. */
export interface ToldChange {
  /** Of the process that has told its own listeners already. */
  readonly from?: string;
  readonly event: DirectiveEvent;
}

export function fromTold(payload: string): ToldChange {
  return JSON.parse(payload) as ToldChange;
}

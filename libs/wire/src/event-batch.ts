import type { ModelEvent } from '@toolloop/core';

/** Who an argument delta belongs to. */
export interface CallName {
  readonly toolCallId: string;
  readonly name: string;
}

/**
 * The events of one network read. Neighbouring deltas of the same kind become one event, so that a provider that packs 2,000 tokens into one
 * packet costs the loop one event, not 2,000.
 */
export class EventBatch {
  private events: ModelEvent[] = [];
  private kind: 'text-delta' | 'reasoning-delta' | CallName | undefined;
  private delta = '';

  append(kind: 'text-delta' | 'reasoning-delta' | CallName, delta: string): void {
    // Providers send `content: ""` beside every other delta; it separates nothing.
    if (delta === '') return;
    if (this.kind !== kind) {
      this.flush();
      this.kind = kind;
    }
    this.delta += delta;
  }

  push(event: ModelEvent): void {
    this.flush();
    this.events.push(event);
  }

  take(): ModelEvent[] {
    this.flush();
    const { events } = this;
    this.events = [];
    return events;
  }

  private flush(): void {
    const { kind, delta } = this;
    this.kind = undefined;
    this.delta = '';
    if (kind === undefined) return;
    this.events.push(
      typeof kind === 'string'
        ? { type: kind, text: delta }
        : { type: 'tool-call-delta', toolCallId: kind.toolCallId, name: kind.name, argumentsDelta: delta },
    );
  }
}

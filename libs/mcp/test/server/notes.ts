import { Injectable, Module } from '@nestjs/common';
import {
  LlmTool,
  ToolContext,
  ToolError,
  ToolParam,
  ToolProvider,
  type ToolCallContext,
} from '@toolloop/core';
import { Expose } from 'class-transformer';

/** A note, whose own tools appear when a tool returns it. */
@ToolProvider({ prefix: 'note', instanceIdProperty: 'id' })
export class Note {
  @Expose() readonly id: string;
  @Expose() text: string;

  constructor(id: string, text: string) {
    this.id = id;
    this.text = text;
  }

  @LlmTool({ description: 'Changes the text of this note.', effect: 'state_change', output: Note })
  edit(@ToolParam('text', { description: 'The new text' }) text: string): Note {
    this.text = text;
    return this;
  }
}

/** What became of the calls that take their time. */
export class Witness {
  readonly aborted: string[] = [];
  readonly begun: string[] = [];
}

@Injectable()
@ToolProvider({ namespace: 'notes' })
export class NoteTools {
  constructor(private readonly witness: Witness) {}

  @LlmTool({ description: 'Finds the notes of a word.', effect: 'read_only', output: [Note] })
  find(
    @ToolParam('word', { description: 'A word' }) word: string,
    @ToolContext() { tenant }: ToolCallContext,
  ): Note[] {
    return [new Note('n1', `${word} of ${tenant}`)];
  }

  @LlmTool({ description: 'Reads a note.', effect: 'read_only', output: Note })
  read(
    @ToolParam('id', { description: 'The id' }) id: string,
    @ToolContext() { tenant }: ToolCallContext,
  ): Note {
    return new Note(id, `a note of ${tenant}`);
  }

  @LlmTool({ description: 'Counts the notes.', effect: 'read_only', reveal: 'all' })
  count(): number {
    return 7;
  }

  @LlmTool({
    description: 'Sends a note to others.',
    effect: 'external_side_effect',
    reveal: 'all',
  })
  send(@ToolParam('to', { description: 'An address' }) to: string): string {
    return `sent to ${to}`;
  }

  @LlmTool({ description: 'Fails with a secret in its error.', effect: 'read_only', reveal: 'all' })
  fail(): string {
    throw new Error('The password is hunter2.');
  }

  @LlmTool({ description: 'Refuses, and says why.', effect: 'read_only', reveal: 'all' })
  refuse(): string {
    throw new ToolError('The notes are closed today.');
  }

  @LlmTool({ description: 'Is for managers.', effect: 'read_only', reveal: 'all' })
  manage(): string {
    return 'managed';
  }

  @LlmTool({ description: 'Works for as long as it may.', effect: 'read_only', reveal: 'all' })
  work(
    @ToolParam('name', { description: 'A name' }) name: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    this.witness.begun.push(name);
    context.progress({ progress: 1, total: 2, message: 'half' });
    return new Promise((resolve) => {
      if (name === 'quick') setImmediate(() => resolve('done'));
      context.signal.addEventListener('abort', () => {
        this.witness.aborted.push(name);
        resolve('stopped');
      });
    });
  }
}

@Module({ providers: [NoteTools, Witness], exports: [Witness] })
export class NotesModule {}

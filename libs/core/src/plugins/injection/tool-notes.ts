import type { Message, SystemMessage, ToolNote } from '@toolloop/protocol';
import type { Toolset } from '../../catalog/toolset.js';
import type { ToolInstructions } from '../../contracts/tool.js';

/**
 * Returns the notes that a transcript lacks: the instructions of tools that came, and for tools
 * that have gone, that theirs no longer apply. The transcript itself tells which notes there are,
 * so that they are written once, and every process, resume and later run of the conversation
 * continues with the same bytes. A note that a history policy left out is written again, since the
 * tools are still there.
 *
 * @param messages those that the model is sent
 */
export function toolNotes(
  messages: readonly Message[],
  toolset: Toolset,
): readonly SystemMessage[] {
  const present = instructionsOf(toolset);
  const written = notesIn(messages);
  const namesPresent = new Set([...present.values()].map(({ tools }) => tools));
  const ended = [...written.values()].filter(({ id, applies }) => applies && !present.has(id));
  const missing = [...present.values()].filter(({ id }) => !written.get(id)?.applies);
  return [
    ...ended.map((note) =>
      noteOf(note, false, namesPresent.has(note.tools) ? replacedText(note) : goneText(note)),
    ),
    ...missing.map((instructions) =>
      noteOf(
        instructions,
        true,
        `Instructions for the tools of "${instructions.tools}":\n${instructions.text}`,
      ),
    ),
  ];
}

/**
 * The instructions by their toolsets, which never change: most steps have the toolset of the step
 * before.
 */
const found = new WeakMap<Toolset, ReadonlyMap<string, ToolInstructions>>();

function instructionsOf(toolset: Toolset): ReadonlyMap<string, ToolInstructions> {
  const known = found.get(toolset);
  if (known) return known;
  const present = new Map<string, ToolInstructions>();
  for (const { instructions } of toolset.tools)
    if (instructions) present.set(instructions.id, instructions);
  found.set(toolset, present);
  return present;
}

/** The last note of each kind of instructions. */
function notesIn(messages: readonly Message[]): ReadonlyMap<string, ToolNote> {
  const notes = new Map<string, ToolNote>();
  for (const message of messages)
    if (message.role === 'system' && message.toolNote)
      notes.set(message.toolNote.id, message.toolNote);
  return notes;
}

function goneText({ tools }: ToolNote): string {
  return `The tools of "${tools}" are no longer available, and the instructions for them no longer apply.`;
}

/** The text where the application was changed between two runs of a conversation. */
function replacedText({ tools }: ToolNote): string {
  return `The instructions above for the tools of "${tools}" no longer apply.`;
}

/**
 * Makes a note. It is as public as a tool's description: static text of the application, without
 * data.
 */
function noteOf(
  { id, tools }: Pick<ToolNote, 'id' | 'tools'>,
  applies: boolean,
  content: string,
): SystemMessage {
  return {
    role: 'system',
    content,
    labels: { returns: 'trusted', reads: 'public' },
    toolNote: { id, tools, applies },
  };
}

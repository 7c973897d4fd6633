import {
  type Message,
  shownCall,
  type ToolInvocationRecord,
  type ToolPresentation,
} from '@toolloop/protocol';

/**
 * Adds to the results of calls what people see of them, so that a page that is loaded again can
 * show the calls.
 */
export function withShownCalls(
  messages: readonly Message[],
  { runId, records }: { readonly runId: string; readonly records: readonly ToolInvocationRecord[] },
  presentationOf: (id: string) => ToolPresentation | undefined = () => undefined,
): readonly Message[] {
  const byId = new Map(records.map((record) => [record.toolCallId, record]));
  return messages.map((message) => {
    const record =
      message.role === 'tool' && !message.shown ? byId.get(message.toolCallId) : undefined;
    return record
      ? { ...message, shown: { ...shownCall(record, presentationOf(record.id)), runId } }
      : message;
  });
}

/** The messages as a run has them: what people see of earlier calls is no business of the model. */
export function withoutShownCalls(messages: readonly Message[]): readonly Message[] {
  return messages.map((message) => {
    if (message.role !== 'tool' || !message.shown) return message;
    const { shown: _shown, ...told } = message;
    return told;
  });
}

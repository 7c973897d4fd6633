'use client';

import { useChat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
} from 'ai';
import { type ReactNode, useMemo, useState } from 'react';

/**
 * A chat with a Toolloop application: text as it comes, a line for each call, and buttons where a
 * call waits for a yes.
 */
export default function Page({
  api = '/ai/chat',
  token = 'ann',
}: {
  readonly api?: string;
  readonly token?: string;
}): ReactNode {
  const transport = useMemo(
    () => new DefaultChatTransport({ api, headers: { authorization: `Bearer ${token}` } }),
    [api, token],
  );
  const { messages, sendMessage, addToolApprovalResponse, status } = useChat({
    transport,
    // a yes continues the run
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const [draft, setDraft] = useState('');

  return (
    <main>
      {messages.map(({ id, role, parts }) => (
        <section key={id} data-role={role}>
          {parts.map((part, at) => {
            if (part.type === 'text') return <p key={at}>{part.text}</p>;
            if (!isToolUIPart(part)) return null;
            const { approval } = part;
            return (
              <div key={part.toolCallId}>
                <code>{part.type.replace('tool-', '')}</code> {part.state}
                {part.state === 'approval-requested' && approval && (
                  <>
                    <button
                      onClick={() =>
                        void addToolApprovalResponse({ id: approval.id, approved: true })
                      }
                    >
                      Approve
                    </button>
                    <button
                      onClick={() =>
                        void addToolApprovalResponse({ id: approval.id, approved: false })
                      }
                    >
                      Deny
                    </button>
                  </>
                )}
              </div>
            );
          })}
        </section>
      ))}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void sendMessage({ text: draft });
          setDraft('');
        }}
      >
        <input
          aria-label="Message"
          value={draft}
          onChange={({ target }) => setDraft(target.value)}
        />
        <button disabled={status !== 'ready'}>Send</button>
      </form>
    </main>
  );
}

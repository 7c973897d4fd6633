import { useCallback, useState } from 'react';
import type { Session } from './session.js';

const KEY = 'toolloop-console-chat';

/**
 * The chat of one person in a tab: the conversation under way, and the text that is typed and not
 * sent.
 */
interface KeptChat {
  readonly of: string;
  readonly conversationId?: string;
  readonly draft?: string;
}

/**
 * The text that is typed into a chat and not sent. It outlives a change of the section and a load
 * of the page, and ends with the tab or the session.
 */
export function useDraft(
  session: Session,
): readonly [draft: string, write: (draft: string) => void] {
  const [draft, setDraft] = useState(() => keptOf(session).draft ?? '');
  const write = useCallback(
    (text: string) => {
      setDraft(text);
      keep({ ...keptOf(session), draft: text });
    },
    [session],
  );
  return [draft, write];
}

/**
 * Finds the conversation that was under way before the page was loaded again; undefined if none had
 * begun.
 */
export function keptConversation(session: Session): string | undefined {
  return keptOf(session).conversationId;
}

/** Keeps the conversation under way; undefined for a new one. */
export function keepConversation(session: Session, conversationId: string | undefined): void {
  const { of, draft } = keptOf(session);
  keep({
    of,
    ...(draft !== undefined && { draft }),
    ...(conversationId !== undefined && { conversationId }),
  });
}

/** Forgets the chat of a person who leaves: the next one at this tab is another. */
export function forgetChat(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // a browser that keeps nothing has nothing to forget
  }
}

function keptOf({ actor, tenant }: Session): KeptChat {
  const of = JSON.stringify([tenant, actor.id ?? null]);
  const kept = read();
  return kept?.of === of ? kept : { of };
}

function keep(chat: KeptChat): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(chat));
  } catch {
    // a browser that keeps nothing forgets it with the page
  }
}

function read(): KeptChat | undefined {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
    return isChat(kept) ? kept : undefined;
  } catch {
    return undefined;
  }
}

function isChat(kept: unknown): kept is KeptChat {
  if (typeof kept !== 'object' || kept === null || !('of' in kept) || typeof kept.of !== 'string')
    return false;
  const { conversationId, draft } = { conversationId: undefined, draft: undefined, ...kept };
  return [conversationId, draft].every(
    (text: unknown) => text === undefined || typeof text === 'string',
  );
}

import { createContext, useContext, useEffect } from 'react';
import type { ToolLoopClient } from '@toolloop/client';
import type { PendingList, Thread } from '@toolloop/react';
import type { Words } from '../words/words.js';
import type { Changed, Feed } from './feed.js';
import type { Place } from './place.js';
import type { Session } from './session.js';

/** What every screen needs. */
export interface Console {
  readonly place: Place;
  readonly session: Session;
  readonly client: ToolLoopClient;
  readonly words: Words;
  readonly pending: PendingList;
  readonly feed: Feed;
  /** The conversation, which outlives the screen that shows it. */
  readonly thread: Thread;
  readonly newThread: () => void;
  /** Says a sentence to screen readers. */
  readonly announce: (sentence: string) => void;
  readonly signOut: () => void;
}

export const ConsoleContext = createContext<Console | undefined>(undefined);

export function useConsole(): Console {
  const found = useContext(ConsoleContext);
  if (!found) throw new Error('A screen is shown outside of the console.');
  return found;
}

export function useWords(): Words {
  return useConsole().words;
}

/** Calls back when the server says that a list has changed, while the component is shown. */
export function useChange(kind: Changed, refresh: () => void): void {
  const { feed } = useConsole();
  useEffect(
    () => feed.watch((changed) => (changed === kind ? refresh() : undefined)),
    [feed, kind, refresh],
  );
}

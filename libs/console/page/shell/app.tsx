import { type ReactNode, Suspense, useCallback, useEffect, useMemo, useState } from 'react';
import { PendingList, requestIdOf, type RunView, Thread, useObserved } from '@toolloop/react';
import { ChatScreen } from '../chat/chat-screen.js';
import { Boundary, Loading } from '../parts/states.js';
import type { Words } from '../words/words.js';
import { type Console, ConsoleContext, useConsole } from './console-context.js';
import { Feed } from './feed.js';
import { Frame } from './frame.js';
import { LostWords, useLanguage } from './language.js';
import type { Place } from './place.js';
import { forgetChat, keepConversation, keptConversation } from './kept.js';
import { conversationIn, go, type Route, useRoute } from './route.js';
import { allowLoad, fetched, forgetLost } from './scripts.js';
import { clientOf, enter, type Entry, isOver, leave, type Session } from './session.js';
import { show } from './settings.js';
import { SignIn } from './sign-in.js';

const InboxScreen = fetched(() => import('../inbox/inbox-screen.js'));
const RunsScreen = fetched(() => import('../runs/runs-screen.js'));
const RunScreen = fetched(() => import('../runs/run-screen.js'));
const ToolsScreen = fetched(() => import('../tools/tools-screen.js'));
const WhyScreen = fetched(() => import('../tools/why-screen.js'));
const UsageScreen = fetched(() => import('../office/usage-screen.js'));
const AuditScreen = fetched(() => import('../office/audit-screen.js'));
const PoliciesScreen = fetched(() => import('../office/policies-screen.js'));
const SourcesScreen = fetched(() => import('../office/sources-screen.js'));
const EvalsScreen = fetched(() => import('../evals/evals-screen.js'));
const ViewAsScreen = fetched(() => import('../office/view-as-screen.js'));

/** The page: the way in, then the console. */
export function App({ place }: { readonly place: Place }): ReactNode {
  const language = useLanguage();
  const { words } = language;
  const [entry, setEntry] = useState<Entry>();
  const look = useCallback(() => {
    enter(place).then(setEntry, (error: unknown) => setEntry({ ways: [], problem: String(error) }));
  }, [place]);
  useEffect(look, [look]);
  useEffect(() => {
    document.title = place.title;
    show();
  }, [place]);
  if (!entry) return <div className="splash" />;
  return (
    <>
      <LostWords {...language} />
      {'session' in entry ? (
        <SignedIn {...{ place, words }} session={entry.session} onLeft={look} />
      ) : (
        <SignIn {...{ place, words, entry }} onEntered={look} />
      )}
    </>
  );
}

interface SignedInProps {
  readonly place: Place;
  readonly words: Words;
  readonly session: Session;
  readonly onLeft: () => void;
}

function SignedIn({ place, words, session, onLeft }: SignedInProps): ReactNode {
  const route = useRoute();
  const [sentence, announce] = useState('');
  const lasting = useMemo(() => {
    const client = clientOf(place, session);
    return { client, pending: new PendingList(client), feed: new Feed(place) };
  }, [place, session]);
  const { thread, newThread } = useThread(route, lasting, session);
  useEffect(() => lasting.feed.start(), [lasting]);
  useEffect(
    () =>
      lasting.feed.watch((changed) => {
        if (changed === 'session')
          isOver(place).then(
            (isLeft) => (isLeft ? onLeft() : undefined),
            () => undefined,
          );
      }),
    [lasting, place, onLeft],
  );
  const signOut = useCallback(() => {
    const left = (): void => {
      forgetChat();
      lasting.feed.tellOthers('session');
      onLeft();
    };
    leave(place).then(left, left);
  }, [lasting, place, onLeft]);
  const shown: Console = useMemo(
    () => ({ place, session, words, thread, newThread, announce, signOut, ...lasting }),
    [place, session, words, thread, newThread, signOut, lasting],
  );
  return (
    <ConsoleContext value={shown}>
      {!session.durable && <Continuation />}
      <Frame route={route}>
        <Boundary key={route.section} words={words} onFailure={forgetLost} onRetry={allowLoad}>
          <Suspense fallback={<Loading rows={5} />}>
            <Screen route={route} />
          </Suspense>
        </Boundary>
      </Frame>
      <div className="unseen" role="status" aria-live="polite">
        {sentence}
      </div>
    </ConsoleContext>
  );
}

/** The conversation that the address names, or the one that is under way. */
function useThread(
  route: Route,
  { client, feed }: Pick<Console, 'client' | 'feed'>,
  session: Session,
): Pick<Console, 'thread' | 'newThread'> {
  const { durable } = session;
  const threadOf = useCallback(
    (conversationId: string = crypto.randomUUID()) =>
      new Thread(client, { conversationId, durable, notices: feed.watch }),
    [client, feed, durable],
  );
  const named = conversationIn(route);
  const [thread, setThread] = useState(() => threadOf(named ?? keptConversation(session)));
  useEffect(() => {
    if (named !== undefined && named !== thread.conversationId) setThread(threadOf(named));
  }, [named, thread, threadOf]);
  const newThread = useCallback(() => {
    keepConversation(session, undefined);
    setThread(threadOf());
    go('chat');
  }, [threadOf, session]);
  return { thread, newThread };
}

/**
 * Resumes the run of the chat once what it asked is answered by any person: nothing else does where
 * runs are not durable. It looks whenever the list of what waits was read again.
 */
function Continuation(): ReactNode {
  const { client, pending, thread } = useConsole();
  const { requests } = useObserved(pending);
  const run = useObserved(thread).turns.at(-1)?.run;
  const runId = run?.status === 'waiting' ? run.runId : undefined;
  const asked = runId === undefined || !run ? '' : askedBy(run).join(' ');
  useEffect(() => {
    if (runId === undefined || asked === '') return;
    const resume = async (): Promise<void> => {
      const open = new Set((await client.pending({ runId })).map(({ id }) => id));
      if (asked.split(' ').some((id) => !open.has(id))) thread.readOn(runId);
    };
    resume().catch(() => undefined); // the next look finds it
  }, [client, thread, runId, asked, requests]);
  return null;
}

/** The ids of what a run has asked and has read no answer to. */
function askedBy({ parts, rehearsal }: RunView): readonly string[] {
  const calls = parts.flatMap((part) =>
    part.kind === 'call' && part.request && !part.answer && !part.record ? [part.request] : [],
  );
  return [...calls.map(requestIdOf), ...(rehearsal ? [rehearsal.rehearsalId] : [])];
}

/** The name of no one, under which the runs of everyone are listed. */
const EVERYONE = '';

function Screen({ route }: { readonly route: Route }): ReactNode {
  const { section, path } = route;
  const [first, ...rest] = path;
  switch (section) {
    case 'inbox':
      return <InboxScreen selected={first} />;
    case 'runs':
      if (first === undefined || first === 'of')
        return <RunsScreen of={first === 'of' ? (rest[0] ?? EVERYONE) : undefined} />;
      return <RunScreen key={first} runId={first} path={rest} />;
    case 'tools':
      return <ToolsScreen selected={first} />;
    case 'why':
      return <WhyScreen key={path.join('/')} tool={first} call={rest} />;
    case 'evals':
      return <EvalsScreen selected={first} beside={rest[0]} />;
    case 'usage':
      return <UsageScreen by={first} />;
    case 'audit':
      return <AuditScreen />;
    case 'policies':
      return <PoliciesScreen selected={first} />;
    case 'sources':
      return <SourcesScreen />;
    case 'as':
      return <ViewAsScreen actorId={first} />;
    default:
      return <ChatScreen named={conversationIn(route)} />;
  }
}

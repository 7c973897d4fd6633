import {
  createContext,
  type ReactNode,
  type SubmitEvent,
  useCallback,
  useContext,
  useState,
} from 'react';
import type { Verdict } from '@toolloop/protocol';
import { useConsole } from '../shell/console-context.js';
import { askOwn } from '../shell/session.js';
import { Icon } from './icon.js';
import { useLoaded } from './loaded.js';
import { Problem } from './states.js';

/** The verdicts of people on a run and its approvals, and how to add one. */
interface Verdicts {
  readonly of: (approvalId: string | undefined) => Verdict | undefined;
  readonly say: (said: Pick<Verdict, 'verdict' | 'why' | 'approvalId'>) => Promise<void>;
}

const VerdictsContext = createContext<Verdicts | undefined>(undefined);

/** Has the verdicts on a run within it, where the application keeps any. */
export function WithVerdicts({
  runId,
  children,
}: {
  readonly runId: string;
  readonly children: ReactNode;
}): ReactNode {
  const { session } = useConsole();
  if (!session.evaluations.verdicts) return children;
  return <LoadedVerdicts runId={runId}>{children}</LoadedVerdicts>;
}

function isVerdict(value: unknown): value is Verdict {
  return typeof value === 'object' && value !== null && 'verdict' in value;
}

function isVerdicts(value: unknown): value is readonly Verdict[] {
  return Array.isArray(value) && value.every(isVerdict);
}

function LoadedVerdicts({
  runId,
  children,
}: {
  readonly runId: string;
  readonly children: ReactNode;
}): ReactNode {
  const { place, session } = useConsole();
  const path = `verdicts/${encodeURIComponent(runId)}`;
  const load = useCallback(
    () => askOwn(place, session, { path, isAnswer: isVerdicts }),
    [place, session, path],
  );
  const { value, reload } = useLoaded(load);
  const verdicts: Verdicts | undefined = value && {
    of: (approvalId) => value.find((verdict) => verdict.approvalId === approvalId),
    say: async (said) => {
      await askOwn(place, session, { path, body: said, isAnswer: isVerdict });
      reload();
    },
  };
  return <VerdictsContext value={verdicts}>{children}</VerdictsContext>;
}

/** What a person said about the run last. */
export function useVerdict(): Verdict | undefined {
  return useContext(VerdictsContext)?.of(undefined);
}

/**
 * The question whether a run, or the decision about one of its approvals, was right. Evaluations
 * read the answer.
 */
export function VerdictControl({
  approvalId,
}: {
  readonly approvalId?: string | undefined;
}): ReactNode {
  const { t } = useConsole().words;
  const { verdicts, isAsked, setAsked, problem, say } = useOwnVerdict(approvalId);
  if (!verdicts) return null;
  const known = verdicts.of(approvalId);
  const question = t(approvalId === undefined ? 'verdict.run' : 'verdict.approval');
  return (
    <div className="said-bar" role="group" aria-label={question}>
      <span className="muted small">{question}</span>
      <button
        type="button"
        className="filter"
        aria-pressed={known?.verdict === 'right'}
        onClick={() => say('right')}
      >
        <Icon name="check" size={14} /> {t('verdict.right')}
      </button>
      <button
        type="button"
        className="filter"
        aria-pressed={known?.verdict === 'wrong'}
        aria-expanded={isAsked}
        onClick={() => setAsked(!isAsked)}
      >
        <Icon name="cross" size={14} /> {t('verdict.wrong')}
      </button>
      {known && !isAsked && <SaidBefore {...known} />}
      {isAsked && <WhyWrong known={known?.why} onSaid={(why) => say('wrong', why)} />}
      <Problem text={problem} />
    </div>
  );
}

/** The verdict that a person is about to give. */
interface OwnVerdict {
  /** Undefined where the application keeps none. */
  readonly verdicts: Verdicts | undefined;
  /** True while the person is asked for the reason of a no. */
  readonly isAsked: boolean;
  readonly setAsked: (isAsked: boolean) => void;
  /** The reason for which the verdict was not kept. */
  readonly problem: string | undefined;
  readonly say: (verdict: Verdict['verdict'], why?: string) => void;
}

function useOwnVerdict(approvalId: string | undefined): OwnVerdict {
  const { words, announce } = useConsole();
  const verdicts = useContext(VerdictsContext);
  const [isAsked, setAsked] = useState(false);
  const [problem, setProblem] = useState<string>();
  const say: OwnVerdict['say'] = (verdict, why) => {
    verdicts
      ?.say({
        verdict,
        ...(approvalId !== undefined && { approvalId }),
        ...(why !== undefined && { why }),
      })
      .then(() => {
        setProblem(undefined);
        setAsked(false);
        announce(words.t('verdict.kept'));
      })
      .catch((error: unknown) =>
        setProblem(error instanceof Error ? error.message : String(error)),
      );
  };
  return { verdicts, isAsked, setAsked, problem, say };
}

function SaidBefore({ by, at, why }: Verdict): ReactNode {
  const { words } = useConsole();
  return (
    <span className="muted small">
      {by} · {words.ago(at)}
      {why === undefined ? '' : ` · “${why}”`}
    </span>
  );
}

interface WhyWrongProps {
  readonly known: string | undefined;
  readonly onSaid: (why: string) => void;
}

function WhyWrong({ known, onSaid }: WhyWrongProps): ReactNode {
  const { t } = useConsole().words;
  const submit = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const why = new FormData(event.currentTarget).get('why');
    onSaid(typeof why === 'string' ? why : '');
  };
  return (
    <form className="said-why" onSubmit={submit}>
      <label className="field">
        <span>{t('verdict.why')}</span>
        <input name="why" maxLength={1000} autoComplete="off" autoFocus defaultValue={known} />
      </label>
      <button type="submit" className="button primary">
        {t('verdict.keep')}
      </button>
    </form>
  );
}

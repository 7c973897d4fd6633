import { Component, type ReactNode } from 'react';
import { ToolLoopHttpError } from '@toolloop/client';
import { useWords } from '../shell/console-context.js';
import { UnfetchedScript } from '../shell/scripts.js';
import type { Words } from '../words/words.js';
import { Icon, type IconName } from './icon.js';

interface NoticeProps {
  readonly icon: IconName;
  readonly title: string;
  readonly children?: ReactNode;
  readonly tone?: 'danger' | 'locked';
}

/** A sentence in place of what is not there, and what to do about it. */
export function Notice({ icon, title, children, tone }: NoticeProps): ReactNode {
  return (
    <div className={`notice ${tone ?? ''}`} role={tone === 'danger' ? 'alert' : undefined}>
      <span className="notice-icon">
        <Icon name={icon} size={22} />
      </span>
      <p className="notice-title">{title}</p>
      {children !== undefined && <div className="notice-body">{children}</div>}
    </div>
  );
}

/** A lock with the permission that opens it. */
export function Locked({ permission }: { readonly permission: string }): ReactNode {
  const { t } = useWords();
  return (
    <Notice icon="lock" title={t('state.locked')} tone="locked">
      {t('state.needs', { permission })}
    </Notice>
  );
}

/** Grey bars where something is about to be. */
export function Loading({ rows = 3 }: { readonly rows?: number }): ReactNode {
  const { t } = useWords();
  return (
    <div className="loading" role="status" aria-label={t('state.loading')}>
      {Array.from({ length: rows }, (_, row) => (
        <span key={row} className={`bar bar-${row % 3}`} />
      ))}
    </div>
  );
}

/** The failure of a request: locked where a permission is missing, otherwise what to do. */
export function Failed({
  error,
  retry,
}: {
  readonly error: Error;
  readonly retry?: () => void;
}): ReactNode {
  const { t } = useWords();
  if (error instanceof ToolLoopHttpError && error.status === 403)
    return (
      <Notice icon="lock" title={t('state.locked')} tone="locked">
        {error.message}
      </Notice>
    );
  return (
    <Notice icon="alert" title={t('state.failed')} tone="danger">
      <p>{error.message}</p>
      {retry && (
        <button type="button" className="button" onClick={retry}>
          {t('state.retry')}
        </button>
      )}
    </Notice>
  );
}

/** The reason for which the last try of a person failed. A screen reader says it at once. */
export function Problem({ text }: { readonly text: string | undefined }): ReactNode {
  if (text === undefined) return null;
  return (
    <p className="problem" role="alert">
      {text}
    </p>
  );
}

interface BoundaryProps {
  readonly words: Words;
  readonly children: ReactNode;
  /** Is called once the failure is shown. */
  readonly onFailure: () => void;
  /** Is called before the section is shown again. */
  readonly onRetry: () => void;
}

/** Keeps the failure of a section from taking the others with it. */
export class Boundary extends Component<BoundaryProps, { readonly error?: Error | undefined }> {
  override state: { readonly error?: Error | undefined } = {};

  static getDerivedStateFromError(error: Error): { readonly error: Error } {
    return { error };
  }

  override componentDidCatch(): void {
    this.props.onFailure();
  }

  private readonly retry = (): void => {
    this.props.onRetry();
    this.setState({ error: undefined });
  };

  override render(): ReactNode {
    const { error } = this.state;
    const { words, children } = this.props;
    if (!error) return children;
    const isUnfetched = error instanceof UnfetchedScript;
    return (
      <Notice
        icon="alert"
        title={words.t(isUnfetched ? 'state.unfetched' : 'state.broken')}
        tone="danger"
      >
        <p>{isUnfetched ? words.t('state.unfetchedHint') : error.message}</p>
        <button type="button" className="button" onClick={this.retry}>
          {words.t('state.retry')}
        </button>
      </Notice>
    );
  }
}

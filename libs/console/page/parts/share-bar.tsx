import type { ReactNode } from 'react';

/**
 * A share of a whole as a bar: 0 to 1. Without a label it is passed over by screen readers, since
 * its figure stands beside it.
 */
export function ShareBar({
  share,
  label,
}: {
  readonly share: number;
  readonly label?: string;
}): ReactNode {
  const said = label === undefined ? { 'aria-hidden': true } : { role: 'img', 'aria-label': label };
  return (
    <svg
      className={share < 0.2 && label !== undefined ? 'share low' : 'share'}
      viewBox="0 0 100 1"
      preserveAspectRatio="none"
      {...said}
    >
      <rect width={100 * Math.min(1, Math.max(0, share))} height="1" />
    </svg>
  );
}

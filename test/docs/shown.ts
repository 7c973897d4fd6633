/** The shown lines that no frame is, each behind the one before. */
export function missingFrom(frames: readonly string[], shown: string): string[] {
  let left = frames;
  return shown
    .trim()
    .split('\n')
    .filter((line) => {
      const found = left.findIndex((frame) => isShortened(frame, line));
      left = left.slice(found + 1);
      return found < 0;
    });
}

/** Whether a line is a frame of which some was left out at each `…`. */
function isShortened(frame: string, line: string): boolean {
  const [beginning = '', ...rest] = line.split('…');
  if (!frame.startsWith(beginning)) return false;
  let position = beginning.length;
  return rest.every((piece) => {
    const found = frame.indexOf(piece, position);
    position = found + piece.length;
    return found >= 0;
  });
}

/**
 * What a misspelt word was probably meant to be: for errors that name it.
 */

/** The candidate that `word` was probably meant to be, or undefined: at most a third of its letters may differ, and never more than 3; or it is its beginning. */
export function closest(word: string, given: Iterable<string>): string | undefined {
  const candidates = [...given];
  let best: string | undefined;
  let bestDistance = Math.min(3, Math.max(1, Math.floor(word.length / 3))) + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best ?? candidates.find((candidate) => word.length > 2 && candidate.toLowerCase().startsWith(word.toLowerCase()));
}

/** Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other (optimal string alignment). */
function editDistance(from: string, to: string): number {
  let before: number[] = [];
  let above = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const line = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      let cost = Math.min(above[column]! + 1, line[column - 1]! + 1, above[column - 1]! + (isSame ? 0 : 1));
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]) cost = Math.min(cost, before[column - 2]! + 1);
      line.push(cost);
    }
    [before, above] = [above, line];
  }
  return above[to.length]!;
}

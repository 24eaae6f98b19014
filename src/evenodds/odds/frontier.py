"""docstring later"""
from __future__ import annotations
from bisect import bisect_right
from dataclasses import dataclass
import numpy as np
from evenodds.odds.problem import Floats, Kernel, OddsProblem

_DUST = 1e-14


def _hull(given):
    source = given / given.sum(axis=1, keepdims=True)
    mass = source.sum(axis=0)
    held = mass > 0.0
    order = np.argsort(-(source[1, held] / mass[held]), kind="stable")
    along = np.concatenate([[0.0], np.cumsum(mass[held][order])])
    height = np.concatenate([[0.0], np.cumsum((source[1] - source[0])[held][order])])
    # float sums end near (2, 0)
    return along * (2.0 / along[-1]), height - height[-1] * (along / along[-1])


def _lower(one, other):
    along = np.union1d(one[0], other[0])
    first, second = np.interp(along, *one), np.interp(along, *other)
    ahead = first - second
    cross = np.flatnonzero(ahead[:-1] * ahead[1:] < 0.0)
    part = ahead[cross] / (ahead[cross] - ahead[cross + 1])
    where = along[cross] + part * (along[cross + 1] - along[cross])
    level = np.minimum(first, second)
    meet = np.minimum(np.interp(where, *one), np.interp(where, *other))
    along, level = np.concatenate([along, where]), np.concatenate([level, meet])
    order = np.argsort(along, kind="stable")
    return along[order], level[order]


def _tidy(along, height):
    keep = np.concatenate([[True], np.diff(np.floor(along / _DUST)) > 0])
    keep[-1] = True
    along, height = along[keep], height[keep]
    if along.size>2 and along[-1]-along[-2] <= _DUST:
        along, height = np.delete(along, -2), np.delete(height, -2)
    while along.size > 2:
        slope = np.diff(height) / np.diff(along)
        flat = np.flatnonzero(slope[:-1] - slope[1:] <= 1e-12) + 1
        if not flat.size: break
        # never neighbours at once
        alone = np.concatenate([[True], np.diff(flat) > 1])
        alone |= (flat-flat[0])%2==0
        drop = flat[np.concatenate([[True], (np.diff(flat) > 1) ])] 
        along, height = np.delete(along, drop), np.delete(height, drop)
    return along, height


def _walk(along, height, area, tolerance):
    at=[0]; i=0; last=len(along)-1; step=1
    def lost(i,j):
        return area[j]-area[i]-0.5*(along[j]-along[i])*(height[i]+height[j])
    while i<last:
        lo=i+1; hi=min(i+step,last)
        hi=max(hi,lo)
        if lost(i,hi)<=tolerance:
            lo=hi
            jump=step
            while lo<last:
                hi=min(lo+jump,last)
                if lost(i,hi)<=tolerance: lo=hi; jump*=2
                else: break
            else: hi=last+1
            if lo==last: hi=last+1
        while hi-lo>1:
            mid=(lo+hi)//2
            if lost(i,mid)<=tolerance: lo=mid
            else: hi=mid
        step=lo-i; i=lo; at.append(i)
    return at
